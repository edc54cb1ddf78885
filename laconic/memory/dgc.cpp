// dgc: momentum before compression, so that an entry that waits gathers momentum too.
//
//   u = m * u + g; v = v + u; send C(v); v = v - C(v); u = 0 where something was sent
//
// The last is momentum factor masking: what was sent must not be pushed further by old gradients.
// The optimiser's own momentum must be 0. Invariant: everything sent plus v is the sum of u over
// all steps, each u taken before masking; with store=bf16 up to the rounding of each step's v.
//
// When the number of ranks changes v is a debt, whose sum stays; u is an average over a rank's own
// gradients, so each rank goes on from the mean of all: momentum has then the size that one rank's
// gradients give it, however many ranks there are.
//
// Masked momentum with a residual beside it (Sattler et al., Sparse Binary Compression, arXiv
// 1805.08768, one local step) is this memory: v is its residual.
#include <cmath>

#include "laconic/kernels/axpy.h"
#include "laconic/kernels/reduce.h"
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

  // Each of N ranks clips at clip / sqrt(N): the sum of N independent gradients of that length has
  // length clip.
  void begin(std::span<const float> gradient, const StepInfo& info) override {
    if (clip_ == 0) return;
    const double most = clip_ / std::sqrt(static_cast<double>(info.ranks));
    const double norm = std::sqrt(kernels::sum_of_squares(gradient));
    scale_ = norm > most ? static_cast<float>(most / norm) : 1.0F;
  }

  std::span<const float> compensate(const Slice& slice, std::span<const float> gradient,
                                    const StepInfo&) override {
    return v_.open(slice, u_.open(slice, gradient, {.kept = momentum_, .fresh = scale_}));
  }

  void absorb(const Slice& slice, const Sent& sent) override {
    const auto values = sent.decode(slice.count, decoded_);
    kernels::add_scaled(values.data(), -1, v_.opened(slice));
    if (masking_) mask_momentum(u_.opened(slice), values);
    u_.close(slice);
    v_.close(slice);
  }

  void commit() override {
    u_.commit();
    v_.commit();
  }
  void rollback() override {}  // old u and v were never touched

  double residual_norm() const override { return v_.norm(); }
  State save() const override { return save_stores({&u_, &v_}); }
  void load(const State& state) override { load_stores(state, {&u_, &v_}); }

 private:
  float momentum_;
  double clip_;
  bool masking_;
  float scale_ = 1;
  Store u_, v_;
  std::vector<float> decoded_;
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
    .examples = {"dgc", "dgc:0.5,clip=2", "dgc:off", "dgc:bf16"},
    .roles = {{"dgc", Kept::sum}, {"dgc.momentum", Kept::mean}},
    .wants_contraction = true,
    .carries_momentum = true,
    .make = [](const Model& model, const Args& args) -> std::unique_ptr<Memory> {
      return std::make_unique<Dgc>(model, args);
    },
}};

}  // namespace
}  // namespace laconic
