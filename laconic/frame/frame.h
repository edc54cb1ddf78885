// The self-describing message: what one rank sends in one step, or one array in a file.
// docs/frame.md is the contract; this file and reference/laconic_reference.py are two readers of
// it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "laconic/operators/operator.h"

namespace laconic {

inline constexpr std::uint8_t kDataVersion = 1;

// Type of the array's elements before compression. Sections always decode to float32.
enum class Dtype : std::uint8_t { float32 = 0, float16 = 1, float64 = 2 };

std::string_view dtype_name(Dtype dtype);

// What stands before the sections.
struct FrameHeader {
  std::uint64_t seed = 0, step = 0, rank = 0;
  Dtype dtype = Dtype::float32;
  std::vector<std::uint64_t> shape;  // of the whole array or model
  std::uint64_t first = 0;           // position of the first section in it

  std::uint64_t count() const;  // product of the shape
  Keys keys() const { return make_keys(seed, step, rank); }
};

// Writes a frame into a buffer, section by section, without copying any.
class FrameWriter {
 public:
  // Starts a frame at the end of `out`. Sections will name one of `operators` by its index.
  FrameWriter(Buffer& out, const FrameHeader& header, std::span<const Operator> operators);

  // Appends the entries x, which follow those of the section before. A slice with NaN or Inf is
  // written as plain floats and marked; returns false for it. `keys` are the frame's; the position
  // is filled in here.
  bool add(std::span<const float> x, std::size_t operator_index, const Keys& keys, Scratch& scratch,
           std::string_view name = {});

  // The section written last.
  ByteView last_section() const { return out_.view(last_); }

  // Writes table and checksum. Returns the bytes of all sections: the payload.
  std::size_t finish();

 private:
  Buffer& out_;
  std::span<const Operator> operators_;
  std::size_t start_;     // of the frame in out_
  std::size_t last_ = 0;  // of the section written last
  std::size_t sections_ = 0, payload_ = 0;
  std::uint64_t position_;
  Buffer table_;
};

// A section as it lies in a frame.
struct Section {
  std::string_view name;
  std::uint64_t first = 0;  // position in the array
  std::size_t count = 0;
  std::size_t operator_index = 0;
  bool finite = true;  // false: plain floats, some of them NaN or Inf
  ByteView bytes;
};

// What a receiver is ready to take.
struct FrameLimits {
  std::uint64_t max_count = std::uint64_t{1} << 31;  // entries of the whole array
};

// A frame that was read and found whole. Views point into the bytes it was read from.
struct Frame {
  FrameHeader header;
  std::vector<Operator> operators;
  std::vector<Section> sections;
  std::size_t payload_bytes = 0, wire_bytes = 0;

  bool finite() const;
  bool covers_all() const;   // the sections are the whole array
  std::string spec() const;  // the operators' specs, joined by a space
};

// Throws DataError with one sentence for anything that is not a whole frame of a kind this version
// reads. Takes memory in proportion to the bytes given, never to the counts they claim.
Frame read_frame(ByteView bytes, const FrameLimits& limits = {});

// Checks every section's bytes. Throws DataError.
void check_sections(const Frame& frame, Scratch& scratch);

// y += weight * the section's values; y has section.count entries.
void add_section(const Frame& frame, const Section& section, float weight, std::span<float> y,
                 Scratch& scratch);

}  // namespace laconic
