// dgc: momentum before compression, so that an entry that waits gathers momentum too.
//
//   u = m * u + g; v = v + u; send C(v); v = v - C(v); u = 0 where something was sent
//
// The last is momentum factor masking: what was sent must not be pushed further by old gradients.
// The optimiser's own momentum must be 0. Invariant: everything sent plus v is the sum of u over
// all steps, each u taken before masking; with store=bf16 or 8bit up to the rounding of each step's
// v. u is float32 always.
//
// When the number of ranks changes v is a debt, whose sum stays; u is an average over a rank's own
// gradients, so each rank goes on from the mean of all: momentum has then the size that one rank's
// gradients give it, however many ranks there are.
//
// Masked momentum with a residual beside it (Sattler et al., Sparse Binary Compression, arXiv
// 1805.08768, one local step) is this memory: v is its residual.
#include <algorithm>
#include <cmath>

#include "laconic/memory/store.h"

namespace laconic {
namespace {

class Dgc : public Memory {
 public:
  Dgc(const Model& model, const Args& args)
      : momentum_(static_cast<float>(args.number("momentum"))),
        clip_(args.number("clip")),
        masking_(args.text("masking") == "on"),
        u_("dgc.momentum", model),
        v_("dgc", model, Store::format_of(args)) {}

  void begin(const StepInfo& info) override {
    ranks_ = static_cast<double>(info.ranks);
    scale_ = info.scale;
    draws_ = info.draws;
    clipped_ = 1;
  }

  // Each of N ranks clips at clip / sqrt(N): the sum of N independent gradients of that length has
  // length clip.
  bool wants_norm() const override { return clip_ > 0; }
  void norm(double norm) override {
    const double most = clip_ / std::sqrt(ranks_), length = norm / scale_;
    clipped_ = length > most ? static_cast<float>(most / length) : 1.0F;
  }

  // u is the next momentum, without the loss scale; what is sent is v + u with it.
  Source source(const Slice& slice, const Floats& gradient) override {
    const Floats u = u_.kept(slice), next = u_.next(slice);
    const float fresh = clipped_ / scale_;
    float a[kBlock], b[kBlock], c[kBlock];
    for (std::size_t from = 0; from < slice.count; from += kBlock) {
      const std::size_t count = std::min(kBlock, slice.count - from);
      const float *g = gradient.load(from, count, a), *old = u.load(from, count, b);
      float* out = next.place(from, count, c);
      for (std::size_t i = 0; i < count; ++i) out[i] = fresh * g[i] + momentum_ * old[i];
      next.store(from, count, out);
    }
    return {.fresh = next,
            .kept = v_.kept(slice),
            .left = v_.next(slice, draws_),
            .a = scale_,
            .b = scale_,
            .c = 1 / scale_};
  }

  void sent(const Slice& slice, const Sent& sent) override {
    if (!masking_) return;
    const Floats next = u_.next(slice);
    float buffer[kBlock];
    sent.each_block(slice.count, [&](std::size_t from, std::span<const float> values) {
      float* u = next.place(from, values.size(), buffer);
      const float* old = next.load(from, values.size(), buffer);
      for (std::size_t i = 0; i < values.size(); ++i) u[i] = values[i] != 0 ? 0.0F : old[i];
      next.store(from, values.size(), u);
    });
  }

  void rest(const Slice& slice) override {
    u_.keep(slice);
    v_.keep(slice, draws_);
  }

  void commit(const Tensors& tensors) override {
    u_.commit(tensors.sent);
    v_.commit(tensors.sent);
  }

  double residual_norm() const override { return v_.norm(); }
  State save() const override { return save_stores({&u_, &v_}); }
  void load(const State& state) override { load_stores(state, {&u_, &v_}); }

 private:
  float momentum_;
  double clip_;
  bool masking_;
  double ranks_ = 1;
  float scale_ = 1, clipped_ = 1;
  Key draws_;
  Store u_, v_;
};

const RegisterMemory dgc{{
    .name = "dgc",
    .summary = "Momentum before compression, masked where it was sent; the optimiser has none.",
    .paper = "Lin et al., Deep Gradient Compression (arXiv 1712.01887); Sattler et al., Sparse "
             "Binary Compression (arXiv 1805.08768)",
    .parameters = {{.name = "momentum",
                    .fallback = "0.9",
                    .choices = {},
                    .min = 0,
                    .max = 0.9999,
                    .help = "what is left of the momentum after a step"},
                   {.name = "clip",
                    .fallback = "0",
                    .choices = {},
                    .min = 0,
                    .max = 1e9,
                    .help = "longest gradient, shared by all ranks; 0: none is clipped"},
                   {.name = "masking",
                    .fallback = "on",
                    .choices = {"on", "off"},
                    .help = "momentum is set to 0 where something was sent"},
                   Store::parameter()},
    .examples = {"dgc", "dgc:0.5,clip=2", "dgc:off", "dgc:bf16", "dgc:8bit"},
    .roles = {{"dgc", Kept::sum}, {"dgc.momentum", Kept::mean}},
    .wants_contraction = true,
    .carries_momentum = true,
    .make = [](const Model& model, const Args& args) -> std::unique_ptr<Memory> {
      return std::make_unique<Dgc>(model, args);
    },
}};

}  // namespace
}  // namespace laconic
