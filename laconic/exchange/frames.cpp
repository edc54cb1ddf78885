// Frames of one leg: one function per verb, and what a frame must be like.
#include "laconic/exchange/frames.h"

#include <algorithm>
#include <numeric>

#include "laconic/base/errors.h"

namespace laconic {
namespace {

void expect(const Frame& frame, const Leg& leg, int rank, Slices slices) {
  const FrameHeader& header = frame.header;
  if (header.rank != static_cast<std::uint64_t>(rank) || header.step != leg.step ||
      header.seed != leg.seed || header.ranks != leg.ranks)
    throw DataError("the frame is of rank " + std::to_string(header.rank) + " of " +
                    std::to_string(header.ranks) + ", step " + std::to_string(header.step) +
                    ", seed " + std::to_string(header.seed));
  if (frame.operators != leg.plan.operators || header.shape.size() != 1 ||
      header.shape[0] != leg.count || frame.sections.size() != slices.size())
    throw DataError("the frame has another operator or layout than this rank");
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Section& section = frame.sections[i];
    const Slice& slice = leg.plan.layout[slices[i]];
    if (section.first != slice.offset || section.count != slice.count ||
        section.operator_index != leg.plan.operator_of[slices[i]])
      throw DataError("the frame has other slices than this rank, which expects '" + slice.name +
                      "'");
  }
}

// What a source stands for, as plain floats.
void append_floats(const Source& source, Buffer& out) {
  float a[kBlock], b[kBlock];
  const bool kept = !source.kept.empty() && source.b != 0;
  for (std::size_t from = 0; from < source.fresh.size(); from += kBlock) {
    const std::size_t count = std::min(kBlock, source.fresh.size() - from);
    const float* fresh = source.fresh.load(from, count, a);
    const float* old = kept ? source.kept.load(from, count, b) : nullptr;
    for (std::size_t i = 0; i < count; ++i)
      out.append_number(source.a * fresh[i] + (old ? source.b * old[i] : 0.0F));
  }
}

// Head and table take less.
std::uint64_t head_and_table(const Plan& plan, Slices slices) {
  std::uint64_t bytes = 1024 + 32 * slices.size();
  for (const Operator& op : plan.operators) bytes += op.spec().size() + 16;
  return bytes;
}

}  // namespace

std::vector<std::size_t> all_slices(const Plan& plan) {
  std::vector<std::size_t> all(plan.layout.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

// No step has this number, so no step's key is this one.
std::uint64_t seed_of_way_back(std::uint64_t seed) { return Key(seed).fork(~0ULL).bits(0); }

void FrameOut::begin(const Leg& leg, int rank, Buffer& out) {
  plan_ = &leg.plan;
  header_.seed = leg.seed;
  header_.step = leg.step;
  header_.rank = static_cast<std::uint64_t>(rank);
  header_.ranks = leg.ranks;
  header_.shape.assign(1, leg.count);
  keys_ = make_keys(leg.seed, leg.step, header_.rank, leg.strata ? leg.ranks : 1);
  if (hints_.size() < leg.plan.layout.size()) hints_.resize(leg.plan.layout.size());
  out.clear();
  writer_.begin(out, header_, leg.plan.operators);
}

bool FrameOut::add(std::size_t slice, Source source, Scratch& scratch) {
  const Slice& place = plan_->layout[slice];
  source.hint = &hints_[slice];
  source.cols = place.cols;
  return writer_.add_section(
      place.offset, place.count, plan_->operator_of[slice], [&](Buffer& out) {
        const bool finite =
            plan_->op(slice).encode(source, out, keys_.at(place.offset), scratch).finite;
        if (!finite) append_floats(source, out);
        return finite;
      });
}

std::size_t FrameOut::add(std::size_t slice, const Floats& x, Memory& memory, Scratch& scratch) {
  const Slice& place = plan_->layout[slice];
  if (add(slice, memory.source(place, x), scratch))
    memory.sent(place,
                {plan_->op(slice), writer_.last_section(), keys_.at(place.offset), scratch, own_});
  return writer_.last_section().size();
}

std::size_t FrameOut::add(std::size_t slice, const Floats& x, Scratch& scratch) {
  add(slice, Source{.fresh = x}, scratch);
  return writer_.last_section().size();
}

void FrameOut::rest(std::size_t slice) {
  const Slice& place = plan_->layout[slice];
  writer_.rest(place.offset, place.count, plan_->operator_of[slice]);
}

void FrameOut::rest(std::size_t slice, Memory& memory) {
  rest(slice);
  memory.rest(plan_->layout[slice]);
}

void FrameIn::open(const Leg& leg, int rank, Slices slices, ByteView bytes, Scratch& scratch,
                   bool own) {
  try {
    read_frame(bytes, {.max_count = leg.count, .own = own}, frame_);
    expect(frame_, leg, rank, slices);
    if (decoders_.size() < slices.size()) decoders_.resize(slices.size());
    for (std::size_t i = 0; i < slices.size(); ++i)
      open_section(frame_, frame_.sections[i], leg.plan.op(slices[i]), scratch, decoders_[i]);
  } catch (const DataError& error) {
    throw DataError("from rank " + std::to_string(rank) + " in step " + std::to_string(leg.step) +
                        ": " + error.what(),
                    rank);
  }
}

void FrameIn::add(float weight, std::span<float> y) const {
  for (std::size_t i = 0; i < frame_.sections.size(); ++i) {
    const Section& section = frame_.sections[i];
    decoders_[i].add(0, section.count, weight, y.data() + section.first);
  }
}

void FramesTogether::hold(std::span<const FrameIn> frames, std::size_t slices) {
  frames_ = frames.size();
  sections_.clear();
  for (std::size_t place = 0; place < slices; ++place)
    for (const FrameIn& frame : frames) sections_.push_back(&frame.slice(place));
}

std::uint64_t largest_frame(const Plan& plan, Slices slices) {
  std::uint64_t bytes = head_and_table(plan, slices);
  for (const std::size_t i : slices)
    bytes +=
        std::max(plan.op(i).max_size(plan.layout[i].count), plan.layout[i].count * sizeof(float));
  return bytes;
}

std::uint64_t usual_frame(const Plan& plan, Slices slices) {
  std::uint64_t bytes = head_and_table(plan, slices);
  for (const std::size_t i : slices) bytes += plan.op(i).max_size(plan.layout[i].count);
  return bytes;
}

}  // namespace laconic
