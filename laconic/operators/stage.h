// The stages a chain is made of, and what passes between them.
//
// A chain is [quantiser] [coder]. The quantiser turns floats into planes of symbols; the coder
// turns planes into bytes. Without a quantiser the floats themselves are the plane; without a coder
// planes are written as they are.
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
#include "laconic/base/key.h"
#include "laconic/codecs/fixed.h"
#include "laconic/operators/scratch.h"

namespace laconic {

// What is known of an operator on `count` entries, as the papers state it.
struct Traits {
  bool unbiased = false;             // E C(x) = x
  bool random = false;               // draws from its keys
  std::optional<double> omega = {};  // E|C(x) - x|^2 <= omega |x|^2
  std::optional<double> delta = {};  // E|C(x) - x|^2 <= (1 - delta) |x|^2: a contraction
};

// `count` symbols of `width` bits (1..8, 16 or 32), packed as in codecs/fixed.h.
struct PlaneShape {
  unsigned width = 8;
  std::size_t count = 0;
  // A plane of bits can be tied to an earlier plane of bytes: its bit i means something only where
  // that plane's byte i is not 0, and is 0 elsewhere. Coders may leave out the others.
  int only_where = -1;

  std::size_t size() const { return packed_size(width, count); }
};

// Up to four planes; none of this touches the heap.
inline constexpr std::size_t kMostPlanes = 4;
struct PlaneShapes {
  std::array<PlaneShape, kMostPlanes> shape{};
  std::size_t count = 0;

  PlaneShapes(std::initializer_list<PlaneShape> list) {
    for (const auto& s : list) shape[count++] = s;
  }
  std::size_t size() const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += shape[i].size();
    return sum;
  }
};
using PlaneSpans = std::array<std::span<std::uint8_t>, kMostPlanes>;
using PlaneViews = std::array<ByteView, kMostPlanes>;

class Quantiser {
 public:
  virtual ~Quantiser() = default;
  virtual PlaneShapes planes(std::size_t count) const = 0;
  // Fills the planes of x. Returns false when x holds NaN or Inf; the planes are then undefined.
  virtual bool encode(std::span<const float> x, const PlaneSpans& planes, const Keys& keys,
                      Scratch& scratch) const = 0;
  // Throws DataError unless every symbol stands for a finite value. Sizes and padding are already
  // right.
  virtual void check(const PlaneViews& planes, std::size_t count) const = 0;
  // y += weight * decoded, for checked planes.
  virtual void add(const PlaneViews& planes, float weight, std::span<float> y,
                   Scratch& scratch) const = 0;
  virtual Traits traits(std::size_t count) const = 0;
};

class Coder {
 public:
  virtual ~Coder() = default;
  // Bounds on a section's size. Fewer bytes than the least are refused before memory is taken for
  // the planes.
  virtual std::size_t min_size(const PlaneShapes& shapes) const = 0;
  virtual std::size_t max_size(const PlaneShapes& shapes) const = 0;
  virtual void encode(const PlaneShapes& shapes, const PlaneViews& planes, Buffer& out,
                      Scratch& scratch) const = 0;
  // Fills the planes from a whole section. Throws DataError when the section is anything but one
  // way to write them.
  virtual void decode(ByteView section, const PlaneShapes& shapes, const PlaneSpans& planes,
                      Scratch& scratch) const = 0;
};

// In the order in which a chain may have them, at most one of each.
enum class Role { quantiser, coder };

std::string_view role_name(Role role);

using Stage = std::variant<std::shared_ptr<const Quantiser>, std::shared_ptr<const Coder>>;

// One file's entry in the table of stages. A stage exists by its registration alone: `list`, the
// laws test, the fuzz targets, the golden frames and the benchmark walk this table.
struct StageInfo {
  std::string name;
  Role role;
  std::string summary;  // one sentence
  std::string paper;    // where it is defined
  std::vector<Parameter> parameters;
  std::vector<std::string> examples;  // chains that every test of all operators runs
  std::function<Stage(const Args&)> make;
};

const std::vector<StageInfo>& stages();

// Registers a stage: `const RegisterStage mine{{.name = "mine", ...}};` at namespace scope.
struct RegisterStage {
  explicit RegisterStage(StageInfo info);
};

}  // namespace laconic
