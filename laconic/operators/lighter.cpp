// What is known of operators is enough to find one that costs less: no name stands here.
#include "laconic/operators/lighter.h"

#include <algorithm>

namespace laconic {
namespace {

std::optional<Operator> parsed(const std::string& spec) {
  try {
    return parse_operator(spec);
  } catch (const UsageError&) {
    return std::nullopt;  // stages that do not go together
  }
}

std::string text_of(const StageText& stage) {
  return std::string(stage.name) + (stage.args.empty() ? "" : ":" + std::string(stage.args));
}

// The chain without its coder.
std::string uncoded(const std::string& spec) {
  std::string chain;
  for (const StageText& stage : split_chain(spec))
    if (stage_named(stage.name).role != Role::coder)
      chain += (chain.empty() ? "" : "+") + text_of(stage);
  return chain;
}

// As it is, and with every way of coding that some stage gives as an example.
std::vector<std::string> candidates_for(const std::string& spec) {
  const std::string own = uncoded(spec);
  std::vector<std::string> all = {own};
  for (const StageInfo& stage : stages()) {
    if (stage.role == Role::quantiser)
      all.insert(all.end(), stage.examples.begin(), stage.examples.end());
    if (stage.role != Role::coder) continue;
    for (const std::string& example : stage.examples)
      for (const StageText& part : split_chain(example))
        if (part.name == stage.name) all.push_back(own + "+" + text_of(part));
  }
  return all;
}

std::size_t size_of(const Operator& op, std::span<const std::size_t> counts) {
  std::size_t bytes = 0;
  for (const std::size_t count : counts) bytes += op.max_size(count);
  return bytes;
}

}  // namespace

bool promises_as_much(const Traits& one, const Traits& other) {
  if (other.unbiased)
    return one.unbiased && (!other.omega || (one.omega && *one.omega <= *other.omega));
  if (!other.delta) return false;
  return one.delta && *one.delta >= *other.delta && one.absolute <= other.absolute;
}

std::optional<Operator> lighter(const Operator& op, std::span<const std::size_t> counts) {
  if (op.selects() || op.fixed_width() || counts.empty()) return std::nullopt;
  std::size_t entries = 0;
  for (const std::size_t count : counts) entries += count;
  std::optional<Operator> best;
  std::size_t least = 2 * entries;
  for (const std::string& spec : candidates_for(op.spec())) {
    const auto other = parsed(spec);
    if (!other || !other->fixed_width() || size_of(*other, counts) >= least) continue;
    const bool keeps = std::ranges::all_of(counts, [&](std::size_t count) {
      const Traits traits = other->traits(count);
      return !traits.shared && promises_as_much(traits, op.traits(count));
    });
    if (!keeps) continue;
    best = other;
    least = size_of(*other, counts);
  }
  return best;
}

}  // namespace laconic
