// Frames of one leg: one function per verb, and what a frame must be like.
#include "laconic/exchange/frames.h"

#include <algorithm>

#include "laconic/base/errors.h"

namespace laconic {
namespace {

// Errors in what a rank sent say which rank.
template <class Read>
auto naming(std::uint64_t rank, std::uint64_t step, Read read) {
  try {
    return read();
  } catch (const DataError& error) {
    throw DataError("from rank " + std::to_string(rank) + " in step " + std::to_string(step) +
                    ": " + error.what());
  }
}

void expect(const Frame& frame, const FrameHeader& header, const Plan& plan, SliceRange slices) {
  if (frame.header.rank != header.rank || frame.header.step != header.step ||
      frame.header.seed != header.seed || frame.header.ranks != header.ranks)
    throw DataError("the frame is of rank " + std::to_string(frame.header.rank) + " of " +
                    std::to_string(frame.header.ranks) + ", step " +
                    std::to_string(frame.header.step) + ", seed " +
                    std::to_string(frame.header.seed));
  if (frame.operators != plan.operators || frame.header.shape != header.shape ||
      frame.sections.size() != slices.last - slices.first)
    throw DataError("the frame has another operator or layout than this rank");
  for (std::size_t i = slices.first; i < slices.last; ++i) {
    const Section& section = frame.sections[i - slices.first];
    if (section.first != plan.layout[i].offset || section.count != plan.layout[i].count ||
        section.operator_index != plan.operator_of[i])
      throw DataError("the frame cuts the model otherwise at slice '" + plan.layout[i].name + "'");
  }
}

// Makes `out` a frame; `add` adds one slice to it.
template <class Add>
std::size_t write(const Leg& leg, int rank, SliceRange slices, Buffer& out, Add add) {
  const FrameHeader header = leg.header(rank);
  const Keys keys = header.keys();
  out.clear();
  FrameWriter frame(out, header, leg.plan.operators);
  for (std::size_t i = slices.first; i < slices.last; ++i) add(frame, i, keys);
  return frame.finish();
}

}  // namespace

FrameHeader Leg::header(int rank) const {
  FrameHeader header;
  header.seed = seed;
  header.step = step;
  header.rank = static_cast<std::uint64_t>(rank);
  header.ranks = static_cast<std::uint64_t>(ranks);
  header.shape = {count};
  return header;
}

// No step has this number, so no step's key is this one.
std::uint64_t seed_of_way_back(std::uint64_t seed) { return Key(seed).fork(~0ULL).bits(0); }

std::size_t write_frame(const Leg& leg, int rank, SliceRange slices, std::span<const float> x,
                        Memory& memory, const StepInfo& info, Scratch& scratch, Buffer& out) {
  return write(leg, rank, slices, out, [&](FrameWriter& frame, std::size_t i, const Keys& keys) {
    const Slice& slice = leg.plan.layout[i];
    const auto wanted = memory.compensate(slice, x.subspan(slice.offset, slice.count), info);
    if (frame.add(slice.offset, wanted, leg.plan.operator_of[i], keys, scratch))
      memory.absorb(slice, {leg.plan.op(i), frame.last_section(), keys.at(slice.offset), scratch});
  });
}

std::size_t write_frame(const Leg& leg, int rank, SliceRange slices, std::span<const float> x,
                        Scratch& scratch, Buffer& out) {
  return write(leg, rank, slices, out, [&](FrameWriter& frame, std::size_t i, const Keys& keys) {
    const Slice& slice = leg.plan.layout[i];
    frame.add(slice.offset, x.subspan(slice.offset, slice.count), leg.plan.operator_of[i], keys,
              scratch);
  });
}

Frame read_frame_of(const Leg& leg, int rank, SliceRange slices, ByteView bytes) {
  return naming(static_cast<std::uint64_t>(rank), leg.step, [&] {
    Frame frame = read_frame(bytes, {.max_count = leg.count});
    expect(frame, leg.header(rank), leg.plan, slices);
    return frame;
  });
}

Frame read_checked_frame_of(const Leg& leg, int rank, SliceRange slices, ByteView bytes,
                            Scratch& scratch) {
  Frame frame = read_frame_of(leg, rank, slices, bytes);
  naming(frame.header.rank, frame.header.step, [&] { check_sections(frame, scratch); });
  return frame;
}

void add_frame(const Frame& frame, float weight, std::span<float> y, Scratch& scratch) {
  naming(frame.header.rank, frame.header.step, [&] {
    for (const Section& section : frame.sections)
      add_section(frame, section, weight, y.subspan(section.first, section.count), scratch);
  });
}

// Each slice at its largest, compressed or as it is; head and table take less than what is added
// for them.
std::uint64_t largest_frame(const Plan& plan, SliceRange slices) {
  std::uint64_t bytes = 1024;
  for (const Operator& op : plan.operators) bytes += op.spec().size() + 16;
  for (std::size_t i = slices.first; i < slices.last; ++i)
    bytes +=
        std::max(plan.op(i).max_size(plan.layout[i].count), plan.layout[i].count * sizeof(float)) +
        64;
  return bytes;
}

}  // namespace laconic
