// Stores: the two formats, and their way into a State.
#include "laconic/memory/store.h"

#include <algorithm>
#include <cmath>

#include "laconic/kernels/half.h"
#include "laconic/kernels/reduce.h"

namespace laconic {
namespace {

void mix_into(const float* __restrict kept, std::span<const float> fresh, Mix mix,
              float* __restrict out) {
  for (std::size_t i = 0; i < fresh.size(); ++i) out[i] = mix.fresh * fresh[i] + mix.kept * kept[i];
}

}  // namespace

Parameter Store::parameter() {
  return {.name = "store",
          .fallback = "fp32",
          .choices = {"fp32", "bf16"},
          .help = "how the residual is kept; bf16 takes half the memory and rounds"};
}

Store::Format Store::format_of(const Args& args) {
  return args.text("store") == "bf16" ? Format::bf16 : Format::fp32;
}

Store::Store(std::string role, const Model& model, Format format)
    : role_(std::move(role)), model_(model), format_(format), count_(count_of(model)) {
  if (format_ == Format::fp32) {
    kept_.resize(count_);
    next_.resize(count_);
    return;
  }
  std::ranges::fill(kept_halves_.reset(2 * count_), std::uint8_t{0});
  next_halves_.reset(2 * count_);
}

Slice Store::all() const {
  Slice slice;
  slice.count = slice.rows = count_;
  return slice;
}

std::span<float> Store::open(const Slice& slice, std::span<const float> fresh, Mix mix) {
  if (format_ == Format::bf16) next_.resize(slice.count);
  const auto next = opened(slice);
  if (format_ == Format::fp32 && mix.kept != 0) {
    mix_into(kept_.data() + slice.offset, fresh, mix, next.data());
    return next;
  }
  std::ranges::transform(fresh, next.begin(), [&](float value) { return mix.fresh * value; });
  if (mix.kept != 0) kernels::bf16_add(kept_halves_.data() + 2 * slice.offset, mix.kept, next);
  return next;
}

std::span<float> Store::opened(const Slice& slice) {
  return std::span(next_).subspan(format_ == Format::fp32 ? slice.offset : 0, slice.count);
}

void Store::close(const Slice& slice) {
  if (format_ == Format::bf16)
    kernels::bf16_encode(opened(slice), next_halves_.data() + 2 * slice.offset);
}

void Store::commit() {
  if (format_ == Format::fp32) kept_.swap(next_);
  kept_halves_.swap(next_halves_);
}

void Store::read(std::size_t from, std::span<float> out) const {
  if (format_ == Format::fp32) {
    std::copy_n(kept_.begin() + static_cast<std::ptrdiff_t>(from), out.size(), out.begin());
    return;
  }
  std::ranges::fill(out, 0.0F);
  kernels::bf16_add(kept_halves_.data() + 2 * from, 1, out);
}

double Store::norm() const {
  if (format_ == Format::fp32) return std::sqrt(kernels::sum_of_squares(kept_));
  float piece[4096];  // no array of floats over the whole model: saving it is what bf16 is for
  double sum = 0;
  for (std::size_t from = 0; from < count_; from += std::size(piece)) {
    const auto part = std::span(piece).first(std::min(std::size(piece), count_ - from));
    read(from, part);
    sum += kernels::sum_of_squares(part);
  }
  return std::sqrt(sum);
}

void Store::save(State& state) const {
  std::vector<float> values(count_);
  read(0, values);
  save_tensors(role_, model_, values, state);
}

void Store::load(const State& state) {
  open(all(), load_tensors(role_, model_, state), {.kept = 0});
  close(all());
  commit();
}

State save_stores(std::initializer_list<const Store*> stores) {
  State state;
  for (const Store* store : stores) store->save(state);
  return state;
}

void load_stores(const State& state, std::initializer_list<Store*> stores) {
  std::vector<std::string> roles;
  for (const Store* store : stores) roles.push_back(store->role());
  expect_state(state, roles, (*stores.begin())->model());
  for (Store* store : stores) store->load(state);
}

}  // namespace laconic
