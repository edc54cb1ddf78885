// An operator: a lossy map from floats to bytes and back, made of stages (operators/stage.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/operators/decoder.h"
#include "laconic/operators/scratch.h"
#include "laconic/operators/source.h"

namespace laconic {

// A value: cheap to copy, immutable, safe to use from many threads (each with its own Scratch).
class Operator {
 public:
  // An upper bound on the bytes encode appends for `count` entries.
  std::size_t max_size(std::size_t count) const;

  // Appends x as one section and writes what is left of it. Bytes and floats depend on the values
  // and the length of a row alone, not on how they lie.
  [[nodiscard]] Encoded encode(const Source& source, Buffer& out, const Keys& keys,
                               Scratch& scratch) const;

  // The same for a plain array. Returns false, with nothing appended, when x holds NaN or Inf.
  [[nodiscard]] bool encode(std::span<const float> x, Buffer& out, const Keys& keys,
                            Scratch& scratch) const;

  // Makes `into` the entries of `section`, to be added stretch by stretch. Throws DataError unless
  // the section is whole and valid to its last bit; nothing can fail afterwards. The section's
  // bytes must outlive the decoder's use. `keys` are those of encode: some operators draw positions
  // from them instead of sending any.
  void open(ByteView section, std::size_t count, const Keys& keys, Scratch& scratch,
            Decoder& into) const;

  // Throws DataError unless `section` is a whole, valid section of `count` entries, written with
  // these keys.
  void check(ByteView section, std::size_t count, const Keys& keys, Scratch& scratch) const;

  // y += weight * decoded: open and add, on all threads. When it throws DataError, y is as it was.
  void add(ByteView section, float weight, std::span<float> y, const Keys& keys,
           Scratch& scratch) const;

  // The canonical spelling: parse_operator(spec()) is this operator again.
  const std::string& spec() const;
  Traits traits(std::size_t count) const;
  // Whether sections of the same keys are arrays of floats, max_size(count) bytes each, whose sum,
  // entry by entry, is the section of the sum, up to rounding.
  bool adds_up() const;

  // Whether only some entries are sent.
  bool selects() const;
  // Whether every entry takes the same bits, whatever it is: a section of `count` entries has
  // max_size(count) bytes, and nothing is chosen, counted or coded.
  bool fixed_width() const;

  friend bool operator==(const Operator& a, const Operator& b) { return a.spec() == b.spec(); }

 private:
  struct Chain;
  explicit Operator(std::shared_ptr<const Chain> chain) : chain_(std::move(chain)) {}
  friend Operator parse_operator(std::string_view spec);

  void require_few(std::size_t count) const;
  void fill(ByteView section, std::size_t count, const Keys& keys, Scratch& scratch,
            Decoder& into) const;
  bool encode_chosen(const Source& source, Buffer& out, const Keys& keys, Scratch& scratch) const;
  bool encode_marked(Entries& entries, Picked& kept, Buffer& out, const Keys& keys,
                     Scratch& scratch) const;
  bool encode_blocks(const Source& source, Buffer& out, const Keys& keys, Scratch& scratch) const;
  bool encode_coded_blocks(const Source& source, Buffer& out, const Keys& keys,
                           Scratch& scratch) const;
  bool encode_swept(const Source& source, Buffer& out, const Keys& keys, Scratch& scratch) const;
  bool encode_whole(const Source& source, Buffer& out, const Keys& keys, Scratch& scratch) const;
  std::optional<PlaneViews> encode_planes(std::span<const float> x, std::size_t cols, Buffer& out,
                                          const Keys& keys, Scratch& scratch) const;
  PlaneViews read_planes(ByteView section, std::size_t count, const Keys& keys, Scratch& scratch,
                         Buffer& memory) const;
  [[noreturn]] void refuse_size(std::size_t count, std::size_t size) const;

  std::shared_ptr<const Chain> chain_;
};

// Example: parse_operator("natural+entropy"). Throws UsageError that names the mistake and what is
// allowed.
Operator parse_operator(std::string_view spec);

// Every chain that the registered stages give as an example: what laws, golden frames, fuzzing and
// benchmarks run over.
std::vector<std::string> example_specs();

// The first of each stage's examples: one chain per stage, for tables that people read.
std::vector<std::string> first_specs();

// Every registered selector, bucket, shrink and coder with every registered quantiser, and
// selectors and buckets together, as far as they go together and no example has them already: laws
// and fuzzing run over these too.
std::vector<std::string> chain_specs();

}  // namespace laconic
