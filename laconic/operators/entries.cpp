// Passes over the entries that a selector chooses from.
#include "laconic/operators/entries.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "laconic/kernels/axpy.h"
#include "laconic/kernels/mark.h"
#include "laconic/kernels/reduce.h"
#include "laconic/kernels/select.h"
#include "laconic/kernels/stream.h"
#include "laconic/operators/blocks.h"

namespace laconic {

namespace {

constexpr std::size_t kAhead = 64;  // entries asked for before their turn, where they lie far apart

}  // namespace

void Picked::clear() {
  positions.clear();
  values.clear();
  marked = false;
}

void Picked::add(std::uint32_t position, float value) {
  positions.push_back(position);
  values.push_back(value);
}

// x before it is scaled.
const float* Entries::load(std::size_t from, std::size_t count, float* buffer) const {
  return x_lies_in_left() ? source_.left.array() + from : source_.load(from, count, buffer);
}

void Entries::leave_all(std::size_t from, std::size_t count, const float* x) const {
  float buffer[kBlock];
  if (source_.c != 1) {
    kernels::scale(source_.c, x, {buffer, count});
    x = buffer;
  }
  if (float* to = source_.left.array(); to && size() >= kernels::kStreamed)
    kernels::stream(x, count, to + from);
  else
    source_.left.store(from, count, x);
}

bool Entries::streams() const { return source_.left.array() && size() >= kernels::kStreamed; }

// What the entries of one block are made of, before they are scaled.
kernels::Mixture Entries::mixture(std::size_t from, std::size_t count, float* fresh,
                                  float* kept) const {
  if (x_lies_in_left()) return {source_.left.array() + from};
  kernels::Mixture x{source_.fresh.load(from, count, fresh), nullptr, source_.a, source_.b};
  if (source_.takes_kept()) x.kept = source_.kept.load(from, count, kept);
  return x;
}

// Looks at one block, appends what reaches the bounds and leaves x there if `leaves`. Returns the
// largest magnitude.
std::uint32_t Entries::collect_block(std::size_t from, std::size_t count, const kernels::Mixture& x,
                                     kernels::Bounds bounds, bool leaves, Picked& found) const {
  float left[kBlock];
  float* to_left = leaves ? source_.left.place(from, count, left) : nullptr;
  const std::uint32_t largest =
      kernels::collect(x, count, {to_left, source_.c, streams()}, scale_, bounds,
                       static_cast<std::uint32_t>(from), found.positions, found.values);
  if (leaves) source_.left.store(from, count, to_left);
  return largest;
}

// The same from `from` up to `to`.
std::uint32_t Entries::collect_from(std::size_t from, std::size_t to, kernels::Bounds bounds,
                                    bool leaves, Picked& found) const {
  float fresh[kBlock], kept[kBlock];
  std::uint32_t largest = 0;
  for (; from < to; from += kBlock) {
    const std::size_t count = std::min(kBlock, to - from);
    largest = std::max(largest, collect_block(from, count, mixture(from, count, fresh, kept),
                                              bounds, leaves, found));
  }
  if (leaves && streams()) kernels::end_stream();
  return largest;
}

// Makes `found` what all parts found.
bool Entries::finish_pass(Picked& found) {
  std::swap(found, parts_[0].found);
  parts_[0].found.clear();
  largest_ = 0;
  for (const Stretch& part : parts_) {
    largest_ = std::max(largest_, part.largest);
    std::ranges::copy(part.found.positions.view(), found.positions.grow(part.found.size()));
    std::ranges::copy(part.found.values.view(), found.values.grow(part.found.size()));
  }
  left_written_ |= !source_.left.empty();
  return largest_ < kernels::kInfinity;
}

bool Entries::collect(kernels::Bounds bounds, Picked& found) {
  const bool leaves_all = leaves();
  in_parts(kBlock, found, [&](std::size_t from, std::size_t to, Stretch& part) {
    part.largest = collect_from(from, to, bounds, leaves_all, part.found);
  });
  return finish_pass(found);
}

bool Entries::pass(Picked& kept) {
  constexpr kernels::Bounds kNone{0x7fffffffU, 0x7fffffffU};
  const bool leaves_all = leaves();
  const auto positions = kept.positions.view();
  float* const values = kept.values.reset(positions.size()).data();
  Picked
      none;  // with the memory that the first part has: nothing is taken from one pass to the next
  parts_.resize(std::max<std::size_t>(parts_.size(), 1));
  std::swap(none, parts_[0].found);
  in_parts(kBlock, none, [&](std::size_t from, std::size_t to, Stretch& part) {
    float fresh[kBlock], memory[kBlock];
    auto next = std::ranges::lower_bound(positions, from);
    for (; from < to; from += kBlock) {
      const std::size_t count = std::min(kBlock, to - from);
      const kernels::Mixture x = mixture(from, count, fresh, memory);
      const auto largest = collect_block(from, count, x, kNone, leaves_all, part.found);
      part.largest = std::max(part.largest, largest);
      for (; next != positions.end() && *next < from + count; ++next)
        values[next - positions.begin()] = scale_ * x.at(*next - from);
    }
    if (leaves_all && streams()) kernels::end_stream();
  });
  const bool finite = finish_pass(none);
  std::swap(none, parts_[0].found);
  return finite;
}

bool Entries::many_reach(std::uint32_t least, Array<float>& memory) const {
  constexpr std::size_t kFewest = 16384, kSampled = 1024;
  if (size() < kFewest) return false;
  std::uint32_t positions[kSampled];
  kernels::sample_positions(size(), positions);
  gather(positions, memory);
  const auto reaches = [&](float value) {
    return (std::bit_cast<std::uint32_t>(value) & 0x7fffffffU) >= least;
  };
  return std::ranges::count_if(memory.view(), reaches) > std::ptrdiff_t{kSampled} / 4;
}

bool Entries::mark(kernels::Cut& above, kernels::Cut& below, Picked& found) {
  const bool leaves_all = leaves();
  const auto marks = found.marks.reset((size() + 63) / 64);
  std::atomic<std::uint32_t> largest = 0;
  const auto one = [&](std::size_t from, std::size_t count) {
    float fresh[kBlock], kept[kBlock], left[kBlock];
    float* to_left = leaves_all ? source_.left.place(from, count, left) : nullptr;
    const std::uint32_t most =
        kernels::mark(mixture(from, count, fresh, kept), count, {to_left, source_.c, streams()},
                      scale_, above, below, marks.data() + from / 64);
    if (leaves_all) source_.left.store(from, count, to_left);
    for (std::uint32_t so_far = largest; so_far < most;)
      if (largest.compare_exchange_weak(so_far, most)) break;
  };
  if (above.ties + below.ties == 0) {
    each_block(size(), pool_, one);
  } else {  // ties go to the first of them, so one block after the other
    for (std::size_t from = 0; from < size(); from += kBlock)
      one(from, std::min(kBlock, size() - from));
    kernels::end_stream();
  }
  found.marked = true;
  largest_ = largest;
  left_written_ |= is_left();
  return largest_ < kernels::kInfinity;
}

void Entries::take(std::span<const std::uint64_t> marks, std::span<const std::uint32_t> first,
                   std::uint8_t* to) const {
  each_block(size(), pool_, [&](std::size_t from, std::size_t count) {
    float buffer[kBlock], scaled[kBlock];
    const float* x = load(from, count, buffer);
    if (scale_ != 1) kernels::scale(scale_, x, {scaled, count});
    kernels::take_marked({scale_ != 1 ? scaled : x, count}, marks.data() + from / 64,
                         to + sizeof(float) * first[from / kBlock]);
  });
}

std::span<const float> Entries::array() {
  if (const float* x = source_.as_it_lies(); x && scale_ == 1) return {x, size()};
  const bool leaves = scale_ == 1 && source_.c == 1 && source_.left.array();
  float* to = leaves ? source_.left.array() : memory_.reset(size()).data();
  each_block(size(), pool_, [&](std::size_t from, std::size_t count) {
    const float* x = load(from, count, to + from);
    if (scale_ != 1)
      kernels::scale(scale_, x, {to + from, count});
    else if (x != to + from)
      std::copy_n(x, count, to + from);
  });
  left_written_ |= leaves;
  return {to, size()};
}

void Entries::gather(std::span<const std::uint32_t> positions, Array<float>& values) const {
  float* to = values.reset(positions.size()).data();
  const float* lies = source_.as_it_lies();
  if (!lies && x_lies_in_left()) lies = source_.left.array();
  if (lies) {
    kernels::gather({lies, size()}, positions, scale_, to);
    return;
  }
  for (const std::uint32_t position : positions) {
    float one;
    *to++ = scale_ * *source_.load(position, 1, &one);
  }
}

void Entries::tally(Tally& counts) const {
  float buffer[kBlock];
  for (std::size_t from = 0; from < size(); from += kBlock) {
    const std::size_t count = std::min(kBlock, size() - from);
    const float* x = load(from, count, buffer);
    for (std::size_t i = 0; i < count; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(scale_ * x[i]);
      ++(bits >> 31 ? counts.below : counts.above)[(bits & 0x7fffffffU) >> 20];
    }
  }
}

void Entries::leave(std::span<const std::uint32_t> positions, std::span<float> values) {
  if (source_.left.empty()) return;
  if (x_lies_in_left()) {
    float* const left = source_.left.array();
    for (std::size_t j = 0; j < positions.size(); ++j) {
      if (j + kAhead < positions.size()) kernels::fetch(left + positions[j + kAhead]);
      left[positions[j]] -= values[j];
    }
    return;
  }
  const float* lies = source_.as_it_lies();
  for (std::size_t j = 0; j < positions.size(); ++j) {
    float one;
    const float x = lies ? lies[positions[j]] : *source_.load(positions[j], 1, &one);
    values[j] = source_.c * (x - values[j]);
  }
  if (!left_written_)
    each_block(size(), pool_, [&](std::size_t from, std::size_t count) {
      float buffer[kBlock];
      leave_all(from, count, load(from, count, buffer));
    });
  source_.left.scatter(positions, values.data());
}

}  // namespace laconic
