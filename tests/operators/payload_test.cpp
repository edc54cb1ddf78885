// The bits audit: the size of every section by every registered stage, from the closed forms of
// payload.h. A stage or code without one fails. What the coder `entropy` and the quantiser `dither`
// write has no closed form and is held to bounds only.
#include "tests/operators/payload.h"

#include "laconic/base/bytes.h"
#include "laconic/codecs/levels.h"

namespace laconic::testing {
namespace {

using Values = std::vector<float>;

struct Sizes {
  std::uint64_t least = 0, most = 0;
};

// A chain by its stages, and one section of it.
class Audit {
 public:
  explicit Audit(const std::string& spec) : op_(parse_operator(spec)), plain_(op_) {
    for (const StageText& text : split_chain(spec)) {
      const auto at = std::ranges::find(stages(), std::string(text.name), &StageInfo::name);
      const Args args(at->name, at->parameters, text.args);
      if (kSelectors.contains(at->name)) selector_.emplace(args), selector_name_ = at->name;
      if (kQuantisers.contains(at->name)) quantiser_.emplace(args), quantiser_name_ = at->name;
      if (at->role == Role::bucket) bucket_ = args.whole("size");
      if (at->role == Role::coder) coder_ = at->name;
      if (at->name == "levels") code_ = args.text("code");
    }
    if (coder_ == "entropy") plain_ = parse_operator(without_coder(spec));
    if (!quantiser_) quantiser_.emplace("identity", std::vector<Parameter>(), "");
  }

  void run(const Values& x) const {
    const std::uint64_t size = encode(op_, x).size();
    const Sizes sizes = x.empty() ? Sizes{} : expected(x, encode(plain_, x));
    EXPECT_GE(size, sizes.least);
    EXPECT_LE(size, sizes.most);
  }

 private:
  Sizes expected(const Values& x, ByteView section) const {
    Chosen kept(x.size());
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = i;
    std::uint64_t before = 0;
    if (selector_) {
      const Choice choice = kSelectors.at(selector_name_)(*selector_, x.size());
      kept = chosen(x, choice.sent);
      EXPECT_LE(kept.size(), choice.space.most);
      if (choice.sent) {
        const std::string index = selector_->text("index");
        const auto number = choice.exact ? choice.space.most - kept.size() : kept.size();
        before = varint(index == "auto" ? 8 * number : number) +
                 position_bytes(index, kept, choice.space);
      }
    }
    if (kept.empty()) return {before, before};
    const Values y = decode(plain_, section, x.size());
    LevelList levels;
    const Planes planes = joined(kept, y, section.subspan(before), levels);
    if (planes.whole.most > 0) return {before + planes.whole.least, before + planes.whole.most};
    if (coder_ == "entropy") return {before + 1, before + entropy_bound(planes, levels)};
    for (const auto& [width, count] : planes.plain) before += in_bytes(width * count);
    const Bounds coded = level_bytes(code_, levels, planes.most);
    return {before + coded.least, before + coded.most};
  }

  // The positions the selector alone keeps; zeros are never kept but by a drawn choice.
  Chosen chosen(const Values& x, bool sent) const {
    const Operator alone = parse_operator(selector_->canonical());
    const Values y = through(alone, sent ? x : Values(x.size(), 1));
    Chosen at;
    for (std::size_t i = 0; i < y.size(); ++i)
      if (y[i] != 0) at.push_back(i);
    return at;
  }

  // The planes of all buckets together, and the levels by the scales in front.
  Planes joined(const Chosen& kept, const Values& y, ByteView rest, LevelList& levels) const {
    const std::uint64_t run = bucket_ > 0 ? bucket_ : kept.size();
    Planes sum;
    for (std::uint64_t from = 0; from < kept.size(); from += run) {
      const auto count = std::min<std::uint64_t>(run, kept.size() - from);
      const Planes one = kQuantisers.at(quantiser_name_)(*quantiser_, count);
      sum.most = one.most;
      sum.whole = one.whole;
      sum.plain.resize(one.plain.size());
      for (std::size_t i = 0; i < one.plain.size(); ++i)
        sum.plain[i] = {one.plain[i].first, sum.plain[i].second + one.plain[i].second};
      if (one.most == 0) continue;
      const double scale = load<float>(rest.data() + from / run * sizeof(float));
      for (std::uint64_t i = from; i < from + count; ++i) {
        const double level = scale == 0 ? 0 : one.level(y[kept[i]], scale);
        EXPECT_NEAR(level, std::round(level), 1e-5 * (1 + std::abs(level)));
        levels.push_back(std::llround(level));
      }
    }
    return sum;
  }

  static std::string without_coder(const std::string& spec) {
    const auto at = spec.rfind('+');
    return at == std::string::npos ? "identity" : spec.substr(0, at);
  }

  // Every plane of bytes as it is and up to three bytes for each 262144 of it; levels in the next
  // power of two of the bits they need, after a varint.
  static std::uint64_t entropy_bound(Planes planes, const LevelList& levels) {
    std::uint64_t sum = 0, largest = 0;
    for (const auto level : levels) largest = std::max(largest, 2 * magnitude(level));
    if (planes.most > 0) {
      sum += varint(largest);
      planes.plain.emplace_back(std::bit_ceil(digits(largest)), levels.size());
    }
    for (const auto& [width, count] : planes.plain) {
      const std::uint64_t lanes = std::max<std::uint64_t>(1, width / 8);
      const std::uint64_t lane = in_bytes(width / lanes * count);
      sum += lanes * (lane + 3 * ((lane + 262143) / 262144));
    }
    return sum;
  }

  Operator op_, plain_;  // plain_: without `entropy`; it makes the same planes
  std::optional<Args> selector_, quantiser_;
  std::string selector_name_, quantiser_name_ = "identity", coder_, code_ = "auto";
  std::uint64_t bucket_ = 0;
};

std::vector<Values> inputs() {
  std::vector<Values> all;
  for (const std::size_t count : {0, 1, 2, 7, 8, 9, 64, 100, 511, 513, 4096, 4097, 9001}) {
    all.push_back(gaussian(count, 1, count));
    all.push_back(made_up(count, count));
    all.push_back(Values(count));
    all.push_back(Values(count, -0.75F));
    Values sparse(count), spike(count, 1e-9F);
    for (std::size_t i = 0; i < count; i += 1 + i % 90) sparse[i] = i % 2 ? 0.3F : -2;
    if (count > 0) spike[count / 3] = 5;
    all.push_back(sparse);
    all.push_back(spike);
  }
  return all;
}

TEST(Payload, EveryStageAndEveryCodeHasAFormula) {
  const std::vector<std::string> nothing_of_their_own = {"shrink", "bucket"},
                                 coders = {"levels", "entropy"};
  const auto is_in = [](const auto& list, const std::string& name) {
    return std::ranges::find(list, name) != list.end();
  };
  for (const StageInfo& stage : stages()) {
    bool known = false;
    switch (stage.role) {
      case Role::scaler:
      case Role::bucket:
        known = is_in(nothing_of_their_own, stage.name);
        break;
      case Role::selector:
        known = kSelectors.contains(stage.name);
        break;
      case Role::quantiser:
        known = kQuantisers.contains(stage.name);
        break;
      case Role::sparse_quantiser:
        known = kSelectors.contains(stage.name) && kQuantisers.contains(stage.name);
        break;
      case Role::coder:
        known = is_in(coders, stage.name);
        break;
    }
    EXPECT_TRUE(known) << "payload.h has no size of sections by '" << stage.name << "'";
  }
  for (const IndexCodec& codec : index_codecs())
    EXPECT_TRUE(kPositionCodes.contains(codec.name)) << codec.name;
  for (const LevelCodec& codec : level_codecs())
    EXPECT_TRUE(codec.name == "pairs" || kLevelCodes.contains(codec.name)) << codec.name;
}

void audit(const std::vector<std::string>& specs) {
  const auto all = inputs();
  for (const std::string& spec : specs) {
    const Audit one(spec);
    for (std::size_t i = 0; i < all.size(); ++i) {
      SCOPED_TRACE(spec + ", input " + std::to_string(i));
      one.run(all[i]);
    }
  }
}

TEST(Payload, EveryExampleHasExactlyItsBytes) { audit(example_specs()); }
TEST(Payload, EveryChainOfStagesHasExactlyItsBytes) { audit(chain_specs()); }

TEST(Payload, EveryCodeOfPositionsHasExactlyItsBytes) {
  std::vector<std::string> specs;
  for (const IndexCodec& codec : index_codecs())
    for (const char* spec : {"topk:0.003", "topk:0.7", "threshold:0.5", "adaptive:16", "sbc:0.02",
                             "stc:0.3", "chunk:64,kept=4", "chunk:100,kept=99"})
      specs.push_back(spec + ("," + codec.name));
  audit(specs);
}

TEST(Payload, EveryCodeOfLevelsHasExactlyItsBytes) {
  std::vector<std::string> specs = {"terngrad+levels:trits", "qsgd:1+levels:trits"};
  for (const char* code : {"auto", "fixed", "elias", "sparse", "pairs"})
    for (const char* spec :
         {"terngrad", "qsgd:2", "qsgd:7", "qsgd:32767,max", "dithering:1", "dithering:12",
          "grid:0.001", "grid:0.125", "grid:16", "bucket:64+qsgd:3,max", "topk:0.3+grid:0.01"})
      specs.push_back(std::string(spec) + "+levels:" + code);
  audit(specs);
}

// 999 with 9 low bits is a one, a zero and the bits; with few low bits it is escaped in 34.
TEST(Payload, SparseLevelsHaveTheBestNumberOfLowBits) {
  Values x(20000);
  for (std::size_t i = 0; i < x.size(); i += 100) x[i] = 3;
  constexpr std::uint64_t kPositions = 200;
  Chosen at;
  for (std::uint64_t i = 0; i < kPositions; ++i) at.push_back(100 * i);
  EXPECT_EQ(encode(parse_operator("qsgd:1000,max+levels:sparse"), x).size(),
            4 + varint(8 * kPositions) + position_bytes("auto", at, {.n = x.size()}) +
                in_bytes(kPositions) + 1 + in_bytes(11 * kPositions));
}

// Independent levels cannot be coded in fewer bits than their entropy.
TEST(Payload, EntropyCodedLevelsAreNotBelowTheirEntropy) {
  const Values x = gaussian(200000, 1);
  for (const std::string spec : {"terngrad", "qsgd:64,max", "grid:0.125"}) {
    std::map<float, double> counts;
    for (const float y : through(parse_operator(spec), x)) ++counts[y];
    double bits = 0;
    for (const auto& [value, count] : counts) bits -= count * std::log2(count / 200000);
    const auto size = static_cast<double>(encode(parse_operator(spec + "+entropy"), x).size());
    EXPECT_GE(8 * size, 0.99 * bits) << spec;
    EXPECT_LE(8 * size, 1.5 * bits + 1000) << spec;
  }
}

}  // namespace
}  // namespace laconic::testing
