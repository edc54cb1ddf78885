// Chains: parsed from their spec, run stage by stage.
#include "laconic/operators/operator.h"

#include <algorithm>
#include <limits>

#include "laconic/base/registry.h"
#include "laconic/kernels/reduce.h"
#include "laconic/kernels/select.h"
#include "laconic/operators/bucketed.h"

namespace laconic {
namespace {

Registry<StageInfo>& registry() {
  static Registry<StageInfo> stages("operator");
  return stages;
}

constexpr std::size_t kAlign = 64;
constexpr std::size_t kMostPositions = std::numeric_limits<std::uint32_t>::max();

// Planes one after the other, as a section without a coder has them.
template <class Byte>
std::array<std::span<Byte>, kMostPlanes> cut(std::span<Byte> bytes, const PlaneShapes& shapes) {
  std::array<std::span<Byte>, kMostPlanes> planes{};
  for (std::size_t i = 0, at = 0; i < shapes.count; at += shapes.shape[i++].size())
    planes[i] = bytes.subspan(at, shapes.shape[i].size());
  return planes;
}

// Planes in working memory, each at an aligned address.
PlaneSpans place(const PlaneShapes& shapes, Buffer& memory) {
  const auto aligned = [](std::size_t size) { return (size + kAlign - 1) / kAlign * kAlign; };
  std::size_t size = kAlign;
  for (std::size_t i = 0; i < shapes.count; ++i) size += aligned(shapes.shape[i].size());
  auto bytes = memory.reset(size);
  bytes = bytes.subspan(aligned(reinterpret_cast<std::uintptr_t>(bytes.data())) -
                        reinterpret_cast<std::uintptr_t>(bytes.data()));
  PlaneSpans planes{};
  for (std::size_t i = 0; i < shapes.count; ++i) {
    planes[i] = bytes.first(shapes.shape[i].size());
    bytes = bytes.subspan(std::min(bytes.size(), aligned(planes[i].size())));
  }
  return planes;
}

PlaneViews views(const PlaneSpans& spans) {
  PlaneViews result;
  std::ranges::copy(spans, result.begin());
  return result;
}

[[noreturn]] void refuse_order(std::string_view spec, const StageInfo& before,
                               const StageInfo& after) {
  throw UsageError(std::string(spec) + ": '" + after.name + "' (a " +
                   std::string(role_name(after.role)) + ") cannot follow '" + before.name +
                   "' (a " + std::string(role_name(before.role)) +
                   "); allowed, in this order: shrink, a selector, a bucket, a quantiser, a coder");
}

// A sparse quantiser stands for a selector and a quantiser, with nothing between or beside them.
bool may_follow(Role before, Role after) {
  if (after == Role::sparse_quantiser) return before == Role::scaler;
  if (before == Role::sparse_quantiser) return after == Role::coder;
  return before < after;
}

}  // namespace

std::string_view role_name(Role role) {
  constexpr std::string_view kNames[] = {"scaler",           "selector",  "bucket",
                                         "sparse quantiser", "quantiser", "coder"};
  return kNames[static_cast<std::size_t>(role)];
}

const std::vector<StageInfo>& stages() { return registry().all(); }

const StageInfo& stage_named(std::string_view name) { return registry().at(name); }

RegisterStage::RegisterStage(StageInfo info) { registry().add(std::move(info)); }

Stage make_stage(std::string_view text) {
  const auto stage = split_chain(text).at(0);
  const StageInfo& info = stage_named(stage.name);
  return info.make(Args(info.name, info.parameters, stage.args));
}

struct Operator::Chain {
  std::string spec;
  bool shrink = false;
  std::shared_ptr<const Selector> selector;  // none: all entries
  std::shared_ptr<const Quantiser> quantiser;
  std::shared_ptr<const Coder> coder;  // none: planes as they are
  std::size_t bucket = 0;              // 0: all entries at once
  bool plain = true;                   // values are written as they are
  bool has_positions = false;          // of entries or levels, which are 32-bit numbers

  void take(std::shared_ptr<const Selector> stage) { selector = std::move(stage); }
  void take(std::shared_ptr<const Quantiser> stage) { quantiser = std::move(stage); }
  void take(std::shared_ptr<const Coder> stage) { coder = std::move(stage); }
  void take(const SparseQuantiser& stage) {
    selector = stage.selector;
    quantiser = stage.quantiser;
  }
  void take(Bucket stage) { bucket = stage.size; }
  void take(Shrink) { shrink = true; }

  void complete() {
    if (!quantiser) std::visit([this](auto&& stage) { take(stage); }, make_stage("identity"));
    if (bucket > 0) quantiser = bucketed(quantiser, bucket);
    const bool levels = quantiser->planes(1).has_levels();
    has_positions = selector || levels;
    if (!coder && levels) std::visit([this](auto&& stage) { take(stage); }, make_stage("levels"));
    if (coder) coder->require(quantiser->planes(1));
    if (shrink && !omega(1024))
      throw UsageError(spec + ": 'shrink' divides by 1 + omega, which is known of unbiased " +
                       "operators only; allowed behind it: operators that list shows as unbiased");
  }

  // The entries the quantiser sees at most.
  std::size_t seen(std::size_t count) const { return selector ? selector->most(count) : count; }

  // The omega that shrink makes up for: of the whole when the whole is unbiased, else of the
  // quantiser behind a projection.
  std::optional<double> omega(std::size_t count) const {
    const Traits values = quantiser->traits(seen(count));
    if (!selector || !values.omega) return values.omega;
    const Traits choice = selector->traits(count);
    if (choice.unbiased) return (1 + *choice.omega) * (1 + *values.omega) - 1;
    return choice.delta ? values.omega : std::nullopt;
  }

  float shrunk(std::size_t count) const { return static_cast<float>(1 / (1 + *omega(count))); }

  Traits traits(std::size_t count) const;
};

// Natural Compression, theorem 5, and what follows for a selector before an unbiased operator:
// |x - C(x)|^2 = |x - S(x)|^2 + |S(x) - C(x)|^2 because S is a projection.
Traits Operator::Chain::traits(std::size_t count) const {
  Traits result = quantiser->traits(seen(count));
  if (selector) {
    const Traits choice = selector->traits(count), values = result;
    result.random |= choice.random;
    result.shared |= choice.shared;
    result.absolute = choice.absolute;
    result.unbiased = choice.unbiased && values.unbiased;
    result.omega = result.unbiased ? omega(count) : std::nullopt;
    result.delta = std::nullopt;
    if (result.unbiased && *result.omega < 1) result.delta = 1 - *result.omega;
    if (!choice.unbiased && choice.delta && values.delta)
      result.delta = *choice.delta * *values.delta;
  }
  if (shrink) {
    const double kept =
        selector && !selector->traits(count).unbiased ? *selector->traits(count).delta : 1.0;
    result.delta = kept / (1 + *omega(count));
    result.omega = std::nullopt;
    result.unbiased = false;
  }
  return result;
}

Operator parse_operator(std::string_view spec) {
  auto chain = std::make_shared<Operator::Chain>();
  const StageInfo* before = nullptr;
  for (const auto& text : split_chain(spec)) {
    const StageInfo& info = stage_named(text.name);
    if (before && !may_follow(before->role, info.role)) refuse_order(spec, *before, info);
    const Args args(info.name, info.parameters, text.args);
    std::visit([&](auto&& stage) { chain->take(stage); }, info.make(args));
    chain->spec += (before ? "+" : "") + args.canonical();
    chain->plain &= info.role < Role::bucket || info.name == "identity";
    before = &info;
  }
  chain->complete();
  return Operator(chain);
}

std::size_t Operator::max_size(std::size_t count) const {
  if (count == 0) return 0;
  const auto shapes = chain_->quantiser->planes(chain_->seen(count));
  return (chain_->selector ? chain_->selector->max_size(count) : 0) +
         (chain_->coder ? chain_->coder->max_size(shapes) : shapes.size());
}

// The entries as the quantiser will see them: scaled, chosen. Returns false when x holds NaN or
// Inf.
bool Operator::prepare(std::span<const float>& x, const Keys& keys, Scratch& scratch) const {
  if (chain_->has_positions && x.size() > kMostPositions)
    throw UsageError("'" + spec() + "' takes slices of up to " + std::to_string(kMostPositions) +
                     " entries, not " + std::to_string(x.size()) + "; a layout can cut them");
  if (!chain_->shrink && !chain_->selector) return true;  // the quantiser looks for itself
  if (!kernels::all_finite(x)) return false;
  if (chain_->shrink) {
    const float factor = chain_->shrunk(x.size());
    const auto scaled = scratch.scaled.reset(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) scaled[i] = factor * x[i];
    x = scaled;
  }
  if (chain_->selector) {
    scratch.kept.clear();
    chain_->selector->select(x, keys, scratch.kept, scratch);
    const float factor = chain_->selector->factor(x.size());
    const auto values = scratch.values.reset(scratch.kept.size());
    kernels::gather(x, scratch.kept.view(), factor, values.data());
    constexpr float kMost = std::numeric_limits<float>::max();
    if (factor > 1)
      for (float& value : values) value = std::clamp(value, -kMost, kMost);
    x = values;
  }
  return true;
}

bool Operator::encode(std::span<const float> x, Buffer& out, const Keys& keys,
                      Scratch& scratch) const {
  if (x.empty()) return true;
  const std::size_t start = out.size(), count = x.size();
  if (!prepare(x, keys, scratch)) return false;
  if (chain_->selector) chain_->selector->write(scratch.kept.view(), count, out);
  const auto shapes = chain_->quantiser->planes(x.size());
  bool finite = true;
  if (chain_->coder) {
    const auto planes = place(shapes, scratch.planes);
    finite = chain_->quantiser->encode(x, planes, keys, scratch);
    if (finite) chain_->coder->encode(shapes, views(planes), out, scratch);
  } else {
    const std::span<std::uint8_t> section(out.grow(shapes.size()), shapes.size());
    finite = chain_->quantiser->encode(x, cut(section, shapes), keys, scratch);
  }
  if (!finite) out.truncate(start);
  return finite;
}

// The planes of a section, checked. They lie in the section itself or, after a coder, in scratch;
// the positions of a selector are in scratch.kept.
PlaneViews Operator::read(ByteView section, std::size_t count, const Keys& keys,
                          Scratch& scratch) const {
  const auto refuse_size = [&](std::size_t size) {
    throw DataError("a section of " + std::to_string(count) + " entries by '" + spec() + "' has " +
                    std::to_string(size) + " bytes, which cannot be");
  };
  if ((count == 0 && !section.empty()) || (chain_->has_positions && count > kMostPositions))
    refuse_size(section.size());
  if (chain_->selector && count > 0) {
    section = chain_->selector->read(section, count, keys, scratch.kept, scratch);
    count = scratch.kept.size();
  }
  const auto shapes = chain_->quantiser->planes(count);
  PlaneViews planes;
  if (count == 0) {
    if (!section.empty()) refuse_size(section.size());
  } else if (chain_->coder) {
    if (section.size() < chain_->coder->min_size(shapes)) refuse_size(section.size());
    const auto decoded = place(shapes, scratch.planes);
    chain_->coder->decode(section, shapes, decoded, scratch);
    planes = views(decoded);
  } else {
    if (section.size() != shapes.size()) refuse_size(section.size());
    planes = cut(section, shapes);
  }
  for (std::size_t i = 0; i < shapes.count; ++i)
    if (!planes[i].empty() &&
        !padding_is_zero(planes[i], shapes.shape[i].width, shapes.shape[i].count))
      throw DataError("a section by '" + spec() + "' has bits set after its last entry");
  if (count > 0) chain_->quantiser->check(planes, count);
  return planes;
}

void Operator::check(ByteView section, std::size_t count, Scratch& scratch) const {
  read(section, count, Keys(), scratch);
}

void Operator::add(ByteView section, float weight, std::span<float> y, const Keys& keys,
                   Scratch& scratch) const {
  const auto planes = read(section, y.size(), keys, scratch);
  if (!chain_->selector) {
    if (!y.empty()) chain_->quantiser->add(planes, weight, y, scratch);
    return;
  }
  if (y.empty() || scratch.kept.empty()) return;
  const auto values = scratch.values.reset(scratch.kept.size());
  std::ranges::fill(values, 0.0F);
  chain_->quantiser->add(planes, 1, values, scratch);
  kernels::scatter_add(scratch.kept.view(), values.data(), weight, y);
}

const std::string& Operator::spec() const { return chain_->spec; }

Traits Operator::traits(std::size_t count) const { return chain_->traits(count); }

// Positions that all ranks draw alike take no bytes.
bool Operator::adds_up() const {
  const Selector* selector = chain_->selector.get();
  return chain_->plain && (!selector || (selector->traits(1).shared && selector->max_size(1) == 0));
}

}  // namespace laconic
