// Chains: parsed from their spec, and what is known of them.
#include "laconic/operators/operator.h"

#include "laconic/base/errors.h"
#include "laconic/operators/bucketed.h"
#include "laconic/operators/chain.h"
#include "laconic/operators/coded_quantiser.h"

namespace laconic {
namespace {

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

void Operator::Chain::complete() {
  if (!quantiser) std::visit([this](auto&& stage) { take(stage); }, make_stage("identity"));
  if (quantiser->coded() && (bucket > 0 || coder))
    throw UsageError(spec + ": its quantiser divides entries and writes bytes by itself; allowed " +
                     "beside it: shrink and a selector in front, but no bucket and no coder");
  if (bucket > 0) quantiser = bucketed(quantiser, bucket);
  const bool levels = quantiser->planes(1).has_levels();
  has_positions = selector || levels;
  if (!coder && levels) std::visit([this](auto&& stage) { take(stage); }, make_stage("levels"));
  if (coder) coder->require(quantiser->planes(1));
  if (auto both = coder ? coder->joined(quantiser) : nullptr) {
    quantiser = std::move(both);
    coder = nullptr;
  }
  if (shrink && !omega(1024))
    throw UsageError(spec + ": 'shrink' divides by 1 + omega, which is known of unbiased " +
                     "operators only; allowed behind it: operators that list shows as unbiased");
}

std::optional<double> Operator::Chain::omega(std::size_t count) const {
  const Traits values = quantiser->traits(seen(count));
  if (!selector || !values.omega) return values.omega;
  const Traits choice = selector->traits(count);
  if (choice.unbiased) return (1 + *choice.omega) * (1 + *values.omega) - 1;
  return choice.delta ? values.omega : std::nullopt;
}

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
  const std::size_t seen = chain_->seen(count);
  const CodedQuantiser* coded = chain_->quantiser->coded();
  const auto shapes = chain_->quantiser->planes(seen);
  return (chain_->selector ? chain_->selector->max_size(count) : 0) +
         (coded           ? coded->max_size(seen)
          : chain_->coder ? chain_->coder->max_size(shapes)
                          : shapes.size());
}

const std::string& Operator::spec() const { return chain_->spec; }

Traits Operator::traits(std::size_t count) const { return chain_->traits(count); }

bool Operator::selects() const { return chain_->selector != nullptr; }

bool Operator::fixed_width() const {
  if (chain_->selector) return false;
  if (const CodedQuantiser* coded = chain_->quantiser->coded())
    return coded->min_size(4096) == coded->max_size(4096);
  const auto shapes = chain_->quantiser->planes(4096);
  return !chain_->coder || chain_->coder->min_size(shapes) == chain_->coder->max_size(shapes);
}

// Positions that all ranks draw alike take no bytes.
bool Operator::adds_up() const {
  const Selector* selector = chain_->selector.get();
  return chain_->plain && (!selector || (selector->traits(1).shared && selector->max_size(1) == 0));
}

}  // namespace laconic
