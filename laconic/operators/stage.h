// The stages a chain is made of, and what passes between them.
//
//   [shrink] [selector] [bucket] [quantiser] [coder]
//
// The selector chooses entries and writes their positions; the quantiser turns the chosen floats
// into planes of symbols, bucket by bucket if there is one in front of it; the coder turns planes
// into bytes. Each may be missing: without a selector all entries are chosen, without a quantiser
// the floats themselves are the plane, without a coder planes are written as they are and levels in
// the smallest code.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "laconic/base/args.h"
#include "laconic/base/errors.h"
#include "laconic/base/key.h"
#include "laconic/codecs/fixed.h"
#include "laconic/kernels/levels.h"
#include "laconic/operators/stage_scratch.h"

namespace laconic {

// What is known of an operator on `count` entries, as the papers state it.
struct Traits {
  bool unbiased = false;             // E C(x) = x
  bool random = false;               // draws from this rank's own key
  bool shared = false;               // draws from the key all ranks have in common
  bool stratified = false;           // what it draws from its own key takes strata (base/key.h)
  bool keeps_signs = true;           // no entry is decoded with the other sign
  std::optional<double> omega = {};  // unbiased: E|C(x) - x|^2 <= omega |x|^2
  std::optional<double> delta = {};  // E|C(x) - x|^2 <= (1 - delta) |x|^2 + absolute^2 count
  double absolute = 0;               // 0: a contraction in the papers' sense
};

// `count` symbols of `width` bits (1..8, 16 or 32), packed as in codecs/fixed.h; or levels.
struct PlaneShape {
  unsigned width = 8;
  std::size_t count = 0;
  // A plane of bits can be tied to an earlier plane of bytes: its bit i means something only where
  // that plane's byte i is not 0, and is 0 elsewhere. Coders may leave out the others.
  int only_where = -1;
  // Above 0: the plane is of signed whole numbers from -most to most (codecs/levels.h), in memory a
  // byte each (so width is 8); how they are written is the coder's choice. If `most` is beyond a
  // byte, the next plane is `wide`: it holds the levels that are beyond, as int32 at an aligned
  // address, and is never written as it is. What it holds elsewhere nobody looks at.
  std::int32_t most = 0;
  bool wide = false;

  std::size_t size() const { return packed_size(width, count); }
};

// Signed levels from -most to most; to be followed by their wide_plane.
inline PlaneShape level_plane(std::size_t count, std::int32_t most) {
  return {.width = 8, .count = count, .most = most};
}
inline PlaneShape wide_plane(std::size_t count, std::int32_t most) {
  return {.width = 32, .count = most > kernels::kMostSmall ? count : 0, .wide = true};
}

// Up to four planes; none of this touches the heap.
inline constexpr std::size_t kMostPlanes = 4;
struct PlaneShapes {
  std::array<PlaneShape, kMostPlanes> shape{};
  std::size_t count = 0;

  PlaneShapes(std::initializer_list<PlaneShape> list) {
    if (list.size() > kMostPlanes)
      throw UsageError("a quantiser of " + std::to_string(list.size()) +
                       " planes; allowed: up to " + std::to_string(kMostPlanes));
    for (const auto& s : list) shape[count++] = s;
  }
  std::size_t size() const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += shape[i].size();
    return sum;
  }
  bool has_levels() const {
    for (std::size_t i = 0; i < count; ++i)
      if (shape[i].most > 0) return true;
    return false;
  }
};
using PlaneSpans = std::array<std::span<std::uint8_t>, kMostPlanes>;
using PlaneViews = std::array<ByteView, kMostPlanes>;

// The levels of plane i, and of the wide plane after it.
inline kernels::LevelSpan levels_of(const PlaneSpans& planes, std::size_t i) {
  return {reinterpret_cast<std::int8_t*>(planes[i].data()),
          planes[i + 1].empty() ? nullptr : reinterpret_cast<std::int32_t*>(planes[i + 1].data())};
}
inline kernels::LevelView levels_of(const PlaneViews& planes, std::size_t i) {
  return {reinterpret_cast<const std::int8_t*>(planes[i].data()),
          planes[i + 1].empty() ? nullptr
                                : reinterpret_cast<const std::int32_t*>(planes[i + 1].data())};
}

class Selector {
 public:
  virtual ~Selector() = default;
  // The most entries it keeps of `count`.
  virtual std::size_t most(std::size_t count) const = 0;
  // Makes `kept` the entries to keep. Returns false when x holds NaN or Inf.
  virtual bool select(Entries& x, const Keys& keys, Picked& kept, StageScratch& scratch) const = 0;
  // What the values of kept entries are multiplied by.
  virtual float factor(std::size_t /*count*/) const { return 1; }
  // Appends what receivers need to know which entries were kept, and the most bytes of it.
  virtual void write(std::span<const std::uint32_t> kept, std::size_t count, Buffer& out) const = 0;
  // The same for entries that `select` has marked, `kept` of them; `positions` is memory.
  virtual void write_marks(std::span<const std::uint64_t> marks, std::size_t kept,
                           std::size_t count, Positions& positions, Buffer& out) const;
  virtual std::size_t max_size(std::size_t count) const = 0;
  // Reads that off the front of a section, fills `kept` and returns the rest. Throws DataError
  // unless the positions are ascending, distinct and below count.
  virtual ByteView read(ByteView section, std::size_t count, const Keys& keys, Positions& kept,
                        StageScratch& scratch) const = 0;
  // The same as marks, a bit for each entry (kernels/marks.h), where many were kept and the section
  // has them nearly so: what decoders prefer. Nothing, with `marks` undefined, where `read` is to
  // be used. Throws DataError only where `read` would.
  struct Marked {
    std::size_t kept;  // how many, at least 1
    ByteView rest;     // of the section
  };
  virtual std::optional<Marked> read_marks(ByteView /*section*/, std::size_t /*count*/,
                                           Array<std::uint64_t>& /*marks*/) const {
    return {};
  }
  // Of a projection (factor 1) the delta counts, of an unbiased selector the omega.
  virtual Traits traits(std::size_t count) const = 0;
};

class BlockQuantiser;
class SweepQuantiser;
class CodedQuantiser;

inline constexpr std::size_t kMostSummed = 64;  // sections that a quantiser adds up at a time

class Quantiser {
 public:
  virtual ~Quantiser() = default;
  // This, if blocks can be encoded one by one.
  virtual const BlockQuantiser* blockwise() const { return nullptr; }
  // This, if it takes entries block by block, but more than once.
  virtual const SweepQuantiser* sweeping() const { return nullptr; }
  // This, if it writes and reads its bytes itself, with the keys at hand.
  virtual const CodedQuantiser* coded() const { return nullptr; }
  virtual PlaneShapes planes(std::size_t count) const = 0;
  // Fills the planes of x. Returns false when x holds NaN or Inf; the planes are then undefined.
  virtual bool encode(std::span<const float> x, const PlaneSpans& planes, const Keys& keys,
                      StageScratch& scratch) const = 0;
  // Throws DataError unless every symbol stands for a finite value. Sizes, padding and the bounds
  // of levels are already right.
  virtual void check(const PlaneViews& planes, std::size_t count) const = 0;
  // y[i] += weight * decoded entry from + i, for checked planes, as far as y goes. `from` is an
  // entry whose symbols begin a byte in every plane. Threads may add distinct stretches.
  virtual void add(const PlaneViews& planes, std::size_t from, float weight,
                   std::span<float> y) const = 0;
  // y[i] = 0 + weight * decoded entry from + i of the first section, + weight * that of the second
  // and so on, whatever y holds. At most kMostSummed sections; otherwise as `add`. A quantiser that
  // walks them side by side saves passes over y.
  virtual void sum(std::span<const PlaneViews* const> sections, std::size_t from, float weight,
                   std::span<float> y) const {
    std::ranges::fill(y, 0.0F);
    for (const PlaneViews* planes : sections) add(*planes, from, weight, y);
  }
  virtual Traits traits(std::size_t count) const = 0;
};

class Coder {
 public:
  virtual ~Coder() = default;
  // Throws UsageError when it cannot write planes of this kind: asked once, when a chain is parsed.
  virtual void require(const PlaneShapes& /*shapes*/) const {}
  // A quantiser whose planes are what this writes of those of `quantiser`, if that is known block
  // by block; nothing else, and the same errors. It then stands for both.
  virtual std::shared_ptr<const Quantiser> joined(
      const std::shared_ptr<const Quantiser>& /*quantiser*/) const {
    return nullptr;
  }
  // Bounds on a section's size. Fewer bytes than the least are refused before memory is taken for
  // the planes.
  virtual std::size_t min_size(const PlaneShapes& shapes) const = 0;
  virtual std::size_t max_size(const PlaneShapes& shapes) const = 0;
  virtual void encode(const PlaneShapes& shapes, const PlaneViews& planes, Buffer& out,
                      StageScratch& scratch) const = 0;
  // Fills the planes from a whole section. Throws DataError when the section is anything but one
  // way to write them.
  virtual void decode(ByteView section, const PlaneShapes& shapes, const PlaneSpans& planes,
                      StageScratch& scratch) const = 0;
};

// In the order in which a chain may have them, at most one of each. A sparse quantiser is a
// selector and a quantiser in one.
enum class Role { scaler, selector, bucket, sparse_quantiser, quantiser, coder };

std::string_view role_name(Role role);

// What a stage's `make` returns, by its role.
struct Shrink {};  // the entries divided by 1 + omega before the rest of the chain
struct Bucket {
  std::size_t size;  // entries the quantiser gets at a time
};
struct SparseQuantiser {
  std::shared_ptr<const Selector> selector;
  std::shared_ptr<const Quantiser> quantiser;
};
using Stage = std::variant<std::shared_ptr<const Quantiser>, std::shared_ptr<const Coder>,
                           std::shared_ptr<const Selector>, SparseQuantiser, Bucket, Shrink>;

// One file's entry in the table of stages. A stage exists by its registration alone: `list`, the
// laws test, the fuzz targets, the golden frames and the benchmark walk this table.
struct StageInfo {
  std::string name;
  Role role;
  std::string summary;  // one sentence
  std::string paper;    // where it is defined
  std::vector<Parameter> parameters;
  std::string bits = {};              // what a section of n entries takes, in one line
  std::vector<std::string> examples;  // chains that every test of all operators runs
  // Takes several times as long as most: the guard gives nobody such a stage who has not asked for
  // it.
  bool costly = false;
  std::function<Stage(const Args&)> make;
};

const std::vector<StageInfo>& stages();

// By name; throws UsageError naming those there are.
const StageInfo& stage_named(std::string_view name);

// Registers a stage: `const RegisterStage mine{{.name = "mine", ...}};` at namespace scope.
struct RegisterStage {
  explicit RegisterStage(StageInfo info);
};

// One stage by its text, for stages made of others: make_stage("topk:0.01").
Stage make_stage(std::string_view text);

}  // namespace laconic
