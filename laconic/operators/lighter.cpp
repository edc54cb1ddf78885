// What is known of operators is enough to find one that costs less or sends less: no name stands
// here.
#include "laconic/operators/lighter.h"

#include <algorithm>
#include <map>

namespace laconic {
namespace {

constexpr std::size_t kSample = 1 << 13;  // entries that stand for more
constexpr double kTight = 0.75;           // of an operator's bytes, for another in its place
constexpr double kClearly = 0.98;         // of another chain's, to be better than that
constexpr double kMostError = 2;          // times its own, of usual entries

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

// The quantisers that stages give as examples.
std::vector<std::string> quantisers() {
  std::vector<std::string> all;
  for (const StageInfo& stage : stages())
    if (stage.role == Role::quantiser)
      all.insert(all.end(), stage.examples.begin(), stage.examples.end());
  return all;
}

// The ways of coding that they give.
std::vector<std::string> coders() {
  std::vector<std::string> all;
  for (const StageInfo& stage : stages()) {
    if (stage.role != Role::coder) continue;
    for (const std::string& example : stage.examples)
      for (const StageText& part : split_chain(example))
        if (part.name == stage.name && std::ranges::find(all, text_of(part)) == all.end())
          all.push_back(text_of(part));
  }
  return all;
}

std::size_t size_of(const Operator& op, std::span<const std::size_t> counts) {
  std::size_t bytes = 0;
  for (const std::size_t count : counts) bytes += op.max_size(count);
  return bytes;
}

bool keeps_promise(const Operator& other, const Operator& op, std::span<const std::size_t> counts) {
  return std::ranges::all_of(counts, [&](std::size_t count) {
    const Traits traits = other.traits(count);
    return !traits.shared && promises_as_much(traits, op.traits(count));
  });
}

// Normally distributed, nearly: the sum of twelve uniform draws, which needs no libm.
std::vector<float> usual_entries(std::size_t count) {
  std::vector<float> x(std::min(count, kSample));
  const Key key(1);
  for (std::size_t i = 0; i < x.size(); ++i) {
    double sum = -6;
    for (std::size_t draw = 0; draw < 12; ++draw) sum += key.bits32(12 * i + draw) * 0x1p-32;
    x[i] = static_cast<float>(sum);
  }
  return x;
}

std::vector<float> usual_entries(std::span<const std::size_t> counts) {
  return usual_entries(counts.empty() ? 0 : *std::ranges::max_element(counts));
}

Usual usual_of(const Operator& op, std::span<const std::size_t> counts,
               std::span<const float> entries) {
  std::map<std::size_t, std::size_t> times;  // a sample of so many entries is there so often
  double beyond = 0;                         // whole samples, of longer slices
  for (const std::size_t count : counts)
    if (count > entries.size())
      beyond += static_cast<double>(count) / static_cast<double>(entries.size());
    else if (count > 0)
      ++times[count];
  Usual all;
  Scratch scratch;
  Buffer section;
  std::vector<float> decoded;
  const Keys keys = make_keys(1, 0, 0);
  const auto add = [&](std::size_t count, double weight) {
    const auto x = entries.first(count);
    section.clear();
    if (!op.encode(x, section, keys, scratch)) return;
    decoded.assign(count, 0.0F);
    op.add(section.view(), 1, decoded, keys, scratch);
    all.bytes += weight * static_cast<double>(section.size());
    for (std::size_t i = 0; i < count; ++i) {
      const double lost = static_cast<double>(decoded[i]) - x[i];
      all.error += weight * lost * lost;
    }
  };
  for (const auto& [count, often] : times) add(count, static_cast<double>(often));
  if (beyond > 0) add(entries.size(), beyond);
  return all;
}

// Whether another may stand in an operator's place, but for its size.
bool may_replace(const Operator& other, const Operator& op, std::span<const std::size_t> counts) {
  if (other.selects()) return false;
  for (const StageText& stage : split_chain(other.spec()))
    if (stage_named(stage.name).costly) return false;
  if (uncoded(other.spec()) == uncoded(op.spec())) return true;  // the same values
  return (other.traits(1).stratified || !op.traits(1).stratified) &&
         keeps_promise(other, op, counts);
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
  const std::string plain = uncoded(op.spec());
  std::vector<std::string> chains = quantisers();
  chains.insert(chains.begin(), plain);
  for (const std::string& coder : coders()) chains.push_back(plain + "+" + coder);
  std::size_t entries = 0;
  for (const std::size_t count : counts) entries += count;
  std::optional<Operator> best;
  std::size_t least = 2 * entries;
  for (const std::string& chain : chains) {
    const auto other = parsed(chain);
    if (!other || !other->fixed_width() || size_of(*other, counts) >= least) continue;
    if (!keeps_promise(*other, op, counts)) continue;
    best = other;
    least = size_of(*other, counts);
  }
  return best;
}

std::optional<Operator> tighter(const Operator& op, std::span<const std::size_t> counts) {
  if (op.selects() || counts.empty()) return std::nullopt;
  std::vector<std::string> chains = {uncoded(op.spec())};
  for (const std::string& quantiser : quantisers())
    if (std::ranges::find(chains, uncoded(quantiser)) == chains.end())
      chains.push_back(uncoded(quantiser));
  for (std::size_t i = 0, plain = chains.size(); i < plain; ++i)
    for (const std::string& coder : coders()) chains.push_back(chains[i] + "+" + coder);
  const std::vector<float> entries = usual_entries(counts);
  const Usual own = usual_of(op, counts, entries);
  std::optional<Operator> best;
  double most = kTight * own.bytes;
  for (const std::string& chain : chains) {
    const auto other = parsed(chain);
    if (!other || !may_replace(*other, op, counts)) continue;
    const Usual usual = usual_of(*other, counts, entries);
    if (usual.bytes > most || usual.error > kMostError * own.error) continue;
    best = other;
    most = kClearly * usual.bytes;
  }
  return best;
}

Usual usual_of(const Operator& op, std::span<const std::size_t> counts) {
  return usual_of(op, counts, usual_entries(counts));
}

}  // namespace laconic
