// Reduce-scatter and all-gather, each in one leg. A ring sends the same bytes in n - 1 legs each,
// and the order in which it adds depends on where the parts begin.
#include "laconic/exchange/sums.h"

#include <algorithm>

#include "laconic/kernels/axpy.h"
#include "laconic/kernels/floats.h"

namespace laconic {
namespace {

std::span<std::uint8_t> bytes_of(std::span<float> values) {
  return {reinterpret_cast<std::uint8_t*>(values.data()), values.size_bytes()};
}

}  // namespace

void Sum::begin(std::span<float> values, int rank, int ranks) {
  values_ = values;
  rank_ = rank;
  ranks_ = ranks;
  leg_ = 0;
  received_.resize(static_cast<std::size_t>(ranks));
}

std::span<float> Sum::part(int rank) const {
  const auto r = static_cast<std::size_t>(rank), n = static_cast<std::size_t>(ranks_);
  const std::size_t from = values_.size() * r / n, to = values_.size() * (r + 1) / n;
  return values_.subspan(from, to - from);
}

bool Sum::next(Transfer& transfer) {
  if (leg_ == 1) add_up();
  if (ranks_ == 1 || values_.empty() || leg_ == 2) return false;
  transfer.clear();
  for (int i = 1; i < ranks_; ++i) {
    const int to = (rank_ + i) % ranks_, from = (rank_ + ranks_ - i) % ranks_;
    const auto out = leg_ == 0 ? part(to) : part(rank_);
    if (!out.empty()) transfer.sends.push_back({to, bytes_of(out)});
    const auto in = leg_ == 0 ? bytes_of(part(rank_)) : bytes_of(part(from));
    if (in.empty()) continue;
    transfer.receives.push_back(Receive::exactly(
        from, leg_ == 0 ? received_[static_cast<std::size_t>(from)].reset(in.size()) : in));
  }
  ++leg_;
  return true;
}

// In rank order from 0, whoever's part it is: floating-point sums depend on it. A block stays in
// the first-level cache until all ranks' shares are in it.
void Sum::add_up() {
  const std::span<float> mine = part(rank_);
  float own[kBlock];
  for (std::size_t from = 0; from < mine.size(); from += kBlock) {
    const auto block = mine.subspan(from, std::min(kBlock, mine.size() - from));
    std::ranges::copy(block, own);
    for (int rank = 0; rank < ranks_; ++rank) {
      const Buffer& received = received_[static_cast<std::size_t>(rank)];
      const float* share =
          rank == rank_ ? own : reinterpret_cast<const float*>(received.data()) + from;
      if (rank == 0)
        std::copy_n(share, block.size(), block.begin());
      else
        kernels::add_scaled(share, 1, block);
    }
  }
}

void foresee_sum(std::size_t floats, int ranks, double encoded, std::vector<ForeseenLeg>& legs) {
  if (ranks == 1 || floats == 0) return;
  const auto n = static_cast<std::size_t>(ranks);
  const auto message = [](std::size_t count) { return count * sizeof(float) + kMessageHead; };
  const std::size_t own = floats / n, parts = std::min(floats, n);  // parts that are not empty
  const std::size_t to_owners = parts - (own > 0);
  const double all = static_cast<double>((floats * sizeof(float) + parts * kMessageHead) * (n - 1));
  const double mean = all / ranks;
  const double most = static_cast<double>((n - 1) * message((floats + n - 1) / n));
  legs.push_back({.sent = (floats - own) * sizeof(float) + to_owners * kMessageHead,
                  .messages = to_owners,
                  .out = mean,
                  .in = mean,
                  .most_out = mean,
                  .most_in = most,
                  .encoded = encoded});
  legs.push_back({.sent = own > 0 ? (n - 1) * message(own) : 0,
                  .messages = own > 0 ? n - 1 : 0,
                  .out = mean,
                  .in = mean,
                  .most_out = most,
                  .most_in = mean,
                  .summed = static_cast<double>(floats)});
}

}  // namespace laconic
