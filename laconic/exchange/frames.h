// Slices as frames: written from a gradient and its memory, opened and compared with what this rank
// expects, added up.
#pragma once

#include "laconic/frame/frame.h"
#include "laconic/memory/memory.h"

namespace laconic {

// Slices of a plan by their index, ascending.
using Slices = std::span<const std::size_t>;

std::vector<std::size_t> all_slices(const Plan& plan);

// What all ranks' frames of one leg of a step have in common. Legs of one step differ in their
// seed, so that no draw is made twice.
struct Leg {
  const Plan& plan;
  std::uint64_t seed, step;
  std::size_t count;      // entries of the model
  std::size_t ranks = 0;  // 0: not said
  bool strata = false;    // the frames of all of them are averaged: rounding draws from strata
};

// The seed of the leg that carries sums back.
std::uint64_t seed_of_way_back(std::uint64_t seed);

// A frame that is being written. Used again, it allocates nothing.
class FrameOut {
 public:
  // Makes `out` a frame. Leg, plan and buffer stay until finish.
  void begin(const Leg& leg, int rank, Buffer& out);

  // Adds a slice of the plan, in ascending order: what memory wants sent for x is encoded, and
  // memory learns what will arrive. A slice that is not finite travels as it is and is marked.
  // Returns the section's bytes.
  std::size_t add(std::size_t slice, const Floats& x, Memory& memory, Scratch& scratch);
  // The same where nothing is remembered between steps.
  std::size_t add(std::size_t slice, const Floats& x, Scratch& scratch);
  // A slice of which this rank sends nothing.
  void rest(std::size_t slice);
  // The same where the step is committed all the same: what is remembered is taken over.
  void rest(std::size_t slice, Memory& memory);

  // Returns the payload: the bytes of all sections.
  std::size_t finish() { return writer_.finish(); }

 private:
  bool add(std::size_t slice, Source source, Scratch& scratch);

  const Plan* plan_ = nullptr;
  FrameHeader header_;
  FrameWriter writer_;
  Keys keys_;
  Decoder own_;
  std::vector<Hint> hints_;  // by slice
};

// A frame that was opened: checked to its last bit, so that adding it cannot fail. Used again, it
// allocates nothing.
class FrameIn {
 public:
  // Throws DataError, naming rank and step, unless the bytes are what that rank must have written
  // of these slices. The bytes stay until the frame is not used any more. Of this rank's own frame
  // the checksum is not computed again.
  void open(const Leg& leg, int rank, Slices slices, ByteView bytes, Scratch& scratch,
            bool own = false);

  bool finite() const { return frame_.finite(); }
  std::uint32_t crc() const { return frame_.crc; }
  std::size_t bytes() const { return frame_.wire_bytes; }

  // The place-th of its slices, and whether it rests.
  const Decoder& slice(std::size_t place) const { return decoders_[place]; }
  bool rests(std::size_t place) const { return frame_.sections[place].rests(); }

  // y += weight * the frame's values; y is over the whole model.
  void add(float weight, std::span<float> y) const;

 private:
  Frame frame_;
  std::vector<Decoder> decoders_;
};

// Several frames of the same slices, which are added up slice by slice.
class FramesTogether {
 public:
  // The frames stay, opened, while they are added up.
  void hold(std::span<const FrameIn> frames, std::size_t slices);

  // Makes block 0 + weight * entries `from` and on of the place-th slice of the first frame, +
  // weight * those of the second and so on. Threads may sum distinct blocks.
  void sum(std::size_t place, std::size_t from, float weight, std::span<float> block) const {
    sum_of(std::span(sections_).subspan(place * frames_, frames_), from, from + block.size(),
           weight, block.data());
  }

 private:
  std::size_t frames_ = 0;
  std::vector<const Decoder*> sections_;  // of all frames, slice by slice
};

// More bytes than any frame of these slices has.
std::uint64_t largest_frame(const Plan& plan, Slices slices);

// The same of frames whose slices are all finite: what buffers are made for.
std::uint64_t usual_frame(const Plan& plan, Slices slices);

}  // namespace laconic
