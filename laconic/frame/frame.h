// The self-describing message: what one rank sends in one step, or one array in a file.
// docs/frame.md is the contract; this file and reference/laconic_reference.py are two readers of
// it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "laconic/base/dtype.h"
#include "laconic/operators/operator.h"

namespace laconic {

inline constexpr std::uint8_t kDataVersion = 4;

// What stands before the sections.
struct FrameHeader {
  std::uint64_t seed = 0, step = 0, rank = 0;
  std::uint64_t ranks = 0;  // how many there are; 0: not said, as in files
  Dtype dtype = Dtype::float32;
  std::vector<std::uint64_t> shape;  // of the whole array or model

  std::uint64_t count() const;  // product of the shape
  Keys keys() const { return make_keys(seed, step, rank); }
};

// What the bytes of a section are.
enum class SectionState : std::uint8_t {
  coded = 0,       // what its operator wrote
  not_finite = 1,  // plain floats, some of them NaN or Inf
  rests = 2,       // none: zeros, and the sender's memory of these entries stayed as it was
};

// Writes a frame into a buffer, section by section, without copying any. Sections ascend in the
// array and do not overlap; entries may lie between them. A writer that is used again keeps its
// memory.
class FrameWriter {
 public:
  FrameWriter() = default;
  FrameWriter(Buffer& out, const FrameHeader& header, std::span<const Operator> operators) {
    begin(out, header, operators);
  }

  // Starts a frame at the end of `out`; one that was not finished is forgotten. Sections will name
  // one of `operators` by its index. Both outlive the frame.
  void begin(Buffer& out, const FrameHeader& header, std::span<const Operator> operators);

  // Appends the entries x, the first of which is entry `first` of the array. A slice with NaN or
  // Inf is written as plain floats and marked; returns false for it. `keys` are the frame's; the
  // position is filled in here.
  // `cols` is the length of a row, if the slice is a matrix.
  bool add(std::uint64_t first, std::span<const float> x, std::size_t operator_index,
           const Keys& keys, Scratch& scratch, std::string_view name = {}, std::size_t cols = 1);

  // The same for `count` entries that lie anywhere: `encode(Buffer&)` appends what the operator
  // makes of them and returns true, or appends them as plain floats and returns false. When it
  // throws, the frame is as it was before.
  template <class Encode>
  bool add_section(std::uint64_t first, std::size_t count, std::size_t operator_index,
                   Encode encode, std::string_view name = {});

  // Appends a section that rests: it takes no bytes and stands for zeros.
  void rest(std::uint64_t first, std::size_t count, std::size_t operator_index,
            std::string_view name = {});

  // The section written last.
  ByteView last_section() const { return out_->view(last_); }

  // Writes table and checksum. Returns the bytes of all sections: the payload.
  std::size_t finish();

 private:
  void require_place(std::uint64_t first, std::size_t count, std::size_t operator_index) const;
  void note(std::uint64_t first, std::size_t count, std::size_t operator_index, SectionState state,
            std::string_view name);

  Buffer* out_ = nullptr;
  std::span<const Operator> operators_;
  std::size_t start_ = 0;  // of the frame in out_
  std::size_t last_ = 0;   // of the section written last
  std::size_t sections_ = 0, payload_ = 0;
  std::uint64_t end_ = 0;  // of the section written last, in the array
  std::uint64_t count_ = 0;
  Buffer table_;
};

template <class Encode>
bool FrameWriter::add_section(std::uint64_t first, std::size_t count, std::size_t operator_index,
                              Encode encode, std::string_view name) {
  require_place(first, count, operator_index);
  const std::size_t before = out_->size();
  bool finite = false;
  try {
    finite = encode(*out_);
  } catch (...) {
    out_->truncate(before);
    throw;
  }
  last_ = before;
  note(first, count, operator_index, finite ? SectionState::coded : SectionState::not_finite, name);
  return finite;
}

// A section as it lies in a frame.
struct Section {
  std::string_view name;
  std::uint64_t first = 0;  // position in the array
  std::size_t count = 0;
  std::size_t operator_index = 0;
  SectionState state = SectionState::coded;
  ByteView bytes;

  bool finite() const { return state != SectionState::not_finite; }
  bool rests() const { return state == SectionState::rests; }
};

// What a receiver is ready to take.
struct FrameLimits {
  std::uint64_t max_count = std::uint64_t{1} << 31;  // entries of the whole array
  bool own = false;  // written by the reader itself: the checksum is right
};

// A frame that was read and found whole. Views point into the bytes it was read from.
struct Frame {
  FrameHeader header;
  std::vector<Operator> operators;
  std::vector<Section> sections;  // ascending, none over another
  std::size_t payload_bytes = 0, wire_bytes = 0;
  std::uint32_t crc = 0;  // the frame's checksum, which is right

  bool finite() const;
  bool covers_all() const;   // the sections are the whole array
  std::string spec() const;  // the operators' specs, joined by a space
};

// Throws DataError with one sentence for anything that is not a whole frame of a kind this version
// reads. Takes memory in proportion to the bytes given, never to the counts they claim.
Frame read_frame(ByteView bytes, const FrameLimits& limits = {});

// The same into a frame that was read before: its memory is used again, and so are its operators
// where the specs are the same, so that the frames of one training are read without allocating.
// When it throws, `into` has no sections.
void read_frame(ByteView bytes, const FrameLimits& limits, Frame& into);

// Checks every section's bytes. Throws DataError.
void check_sections(const Frame& frame, Scratch& scratch);

// Makes `into` the entries of a section of any state, which `op` wrote. Throws DataError unless it
// is valid to its last bit. The frame's bytes must outlive the decoder's use.
void open_section(const Frame& frame, const Section& section, const Operator& op, Scratch& scratch,
                  Decoder& into);

// y += weight * the section's values; y has section.count entries. A section that rests adds
// nothing.
void add_section(const Frame& frame, const Section& section, float weight, std::span<float> y,
                 Scratch& scratch);

}  // namespace laconic
