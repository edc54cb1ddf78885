// Passes over the entries that a selector chooses from.
#include "laconic/operators/entries.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "laconic/kernels/axpy.h"
#include "laconic/kernels/reduce.h"
#include "laconic/kernels/select.h"
#include "laconic/kernels/stream.h"
#include "laconic/operators/blocks.h"

namespace laconic {

namespace {

constexpr std::size_t kAhead = 16;  // entries asked for before their turn, where they lie far apart

}  // namespace

void Picked::clear() {
  positions.clear();
  values.clear();
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

bool Entries::collect(kernels::Bounds bounds, Picked& found) {
  found.clear();
  largest_ = 0;
  const bool leaves = !source_.left.empty() && !left_written_, mixed = x_lies_in_left();
  const bool streamed = source_.left.array() && size() >= kernels::kStreamed;
  float fresh[kBlock], kept[kBlock], left[kBlock];
  for (std::size_t from = 0; from < size(); from += kBlock) {
    const std::size_t count = std::min(kBlock, size() - from);
    kernels::Mixture x{mixed ? source_.left.array() + from
                             : source_.fresh.load(from, count, fresh)};
    if (!mixed) x.a = source_.a;
    if (!mixed && source_.takes_kept()) {
      x.kept = source_.kept.load(from, count, kept);
      x.b = source_.b;
    }
    float* to = leaves ? source_.left.place(from, count, left) : nullptr;
    largest_ = std::max(largest_, kernels::collect(x, count, {to, source_.c, streamed}, scale_,
                                                   bounds, static_cast<std::uint32_t>(from),
                                                   found.positions, found.values));
    if (leaves) source_.left.store(from, count, to);
  }
  if (leaves && streamed) kernels::end_stream();
  left_written_ |= leaves;
  return largest_ < kernels::kInfinity;
}

bool Entries::pass() {
  const bool leaves = !source_.left.empty() && !left_written_;
  std::atomic<std::uint32_t> largest = 0;
  each_block(size(), pool_, [&](std::size_t from, std::size_t count) {
    float buffer[kBlock];
    const float* x = load(from, count, buffer);
    if (leaves) leave_all(from, count, x);
    const std::uint32_t mine = kernels::largest_magnitude({x, count});
    for (auto seen = largest.load(); mine > seen && !largest.compare_exchange_weak(seen, mine);) {
    }
  });
  left_written_ |= leaves;
  largest_ = largest;
  return largest_ < kernels::kInfinity;
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
