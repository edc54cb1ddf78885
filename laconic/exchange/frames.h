// Slices as frames: written from a gradient and its memory, read and compared with what this rank
// expects, added up.
#pragma once

#include "laconic/frame/frame.h"
#include "laconic/memory/memory.h"

namespace laconic {

// Neighbouring slices of a plan, `last` not among them.
struct SliceRange {
  std::size_t first = 0, last = 0;

  bool empty() const { return first == last; }
};

inline SliceRange all_slices(const Plan& plan) { return {0, plan.layout.size()}; }

// What all ranks' frames of one leg of a step have in common. Legs of one step differ in their
// seed, so that no draw is made twice.
struct Leg {
  const Plan& plan;
  std::uint64_t seed, step;
  std::size_t count;  // entries of the model
  int ranks;

  FrameHeader header(int rank) const;
};

// The seed of the leg that carries sums back.
std::uint64_t seed_of_way_back(std::uint64_t seed);

// Makes `out` a frame of these slices of x, an array over the whole model: what memory wants sent
// is encoded, and memory learns what will arrive. Memory has begun the step. Returns the payload.
std::size_t write_frame(const Leg& leg, int rank, SliceRange slices, std::span<const float> x,
                        Memory& memory, const StepInfo& info, Scratch& scratch, Buffer& out);

// The same where nothing is remembered between steps.
std::size_t write_frame(const Leg& leg, int rank, SliceRange slices, std::span<const float> x,
                        Scratch& scratch, Buffer& out);

// Throws DataError, naming rank and step, unless the bytes are what that rank must have written.
Frame read_frame_of(const Leg& leg, int rank, SliceRange slices, ByteView bytes);

// The same with every section checked: adding the frame cannot fail any more.
Frame read_checked_frame_of(const Leg& leg, int rank, SliceRange slices, ByteView bytes,
                            Scratch& scratch);

// y += weight * the frame's values; y is over the whole model. Throws DataError like read_frame_of:
// some of the frame may have been added then.
void add_frame(const Frame& frame, float weight, std::span<float> y, Scratch& scratch);

// More bytes than any frame of these slices has.
std::uint64_t largest_frame(const Plan& plan, SliceRange slices);

}  // namespace laconic
