// Reduce-scatter and all-gather, each in one leg. A ring sends the same bytes in n - 1 legs each,
// and the order in which it adds depends on where the parts begin.
#include "laconic/exchange/sums.h"

#include <algorithm>

#include "laconic/codecs/crc32c.h"
#include "laconic/kernels/axpy.h"
#include "laconic/kernels/floats.h"

namespace laconic {
namespace {

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

std::span<std::uint8_t> bytes_of(std::span<float> values) {
  return {reinterpret_cast<std::uint8_t*>(values.data()), values.size_bytes()};
}

void require(std::uint32_t found, const std::array<std::uint8_t, 4>& sent, int from) {
  if (found != load<std::uint32_t>(sent.data()))
    throw DataError("the floats from rank " + std::to_string(from) + " are damaged", from);
}

}  // namespace

void Sum::begin(std::span<float> values, int rank, int ranks) {
  values_ = values;
  rank_ = rank;
  ranks_ = ranks;
  leg_ = 0;
  received_.resize(at(ranks));
  out_.resize(at(ranks));
  in_.assign(at(ranks), {});
  found_.resize(at(ranks));
}

std::span<float> Sum::part(int rank) const {
  const auto r = static_cast<std::size_t>(rank), n = static_cast<std::size_t>(ranks_);
  const std::size_t from = values_.size() * r / n, to = values_.size() * (r + 1) / n;
  return values_.subspan(from, to - from);
}

bool Sum::next(Transfer& transfer) {
  if (leg_ == 1) add_up();
  if (leg_ == 2) check_sums();
  if (ranks_ == 1 || values_.empty() || leg_ == 2) return false;
  transfer.clear();
  for (int i = 1; i < ranks_; ++i) {
    const int to = (rank_ + i) % ranks_, from = (rank_ + ranks_ - i) % ranks_;
    const auto out = bytes_of(leg_ == 0 ? part(to) : part(rank_));
    if (!out.empty()) {
      if (leg_ == 0) store(out_[at(to)].data(), crc32c(out));
      transfer.sends.push_back({to, leg_ == 0 ? out_[at(to)] : in_[at(rank_)]});
      transfer.sends.push_back({to, out});
    }
    const auto in = bytes_of(leg_ == 0 ? part(rank_) : part(from));
    if (in.empty()) continue;
    transfer.receives.push_back(Receive::exactly(from, in_[at(from)]));
    transfer.receives.push_back(
        Receive::exactly(from, leg_ == 0 ? received_[at(from)].reset(in.size()) : in));
  }
  ++leg_;
  return true;
}

// In rank order from 0, whoever's part it is: floating-point sums depend on it. A block stays in
// the first-level cache until all ranks' shares are in it and all checksums know it.
void Sum::add_up() {
  const std::span<float> mine = part(rank_);
  float own[kBlock];
  std::ranges::fill(found_, 0);
  for (std::size_t from = 0; from < mine.size(); from += kBlock) {
    const auto block = mine.subspan(from, std::min(kBlock, mine.size() - from));
    std::ranges::copy(block, own);
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto share = rank == rank_ ? bytes_of(std::span(own).first(block.size()))
                                       : received_[at(rank)].span().subspan(from * sizeof(float),
                                                                            block.size_bytes());
      if (rank != rank_) found_[at(rank)] = crc32c(share, found_[at(rank)]);
      const auto* values = reinterpret_cast<const float*>(share.data());
      if (rank == 0)
        std::copy_n(values, block.size(), block.begin());
      else
        kernels::add_scaled(values, 1, block);
    }
    found_[at(rank_)] = crc32c(bytes_of(block), found_[at(rank_)]);
  }
  for (int rank = 0; rank < ranks_ && !mine.empty(); ++rank)
    if (rank != rank_) require(found_[at(rank)], in_[at(rank)], rank);
  in_.assign(at(ranks_), {});  // from here on of sums, which all ranks have
  store(in_[at(rank_)].data(), found_[at(rank_)]);
}

void Sum::check_sums() const {
  for (int rank = 0; rank < ranks_; ++rank)
    if (rank != rank_ && !part(rank).empty())
      require(crc32c(bytes_of(part(rank))), in_[at(rank)], rank);
}

std::uint32_t Sum::hash() const {
  std::uint32_t hash = 0;
  for (const Checksum& part : in_) hash = crc32c(part, hash);
  return hash;
}

void foresee_sum(std::size_t floats, int ranks, double encoded, std::vector<ForeseenLeg>& legs) {
  if (ranks == 1 || floats == 0) return;
  const auto n = static_cast<std::size_t>(ranks);
  constexpr std::size_t kAround = 2 * kMessageHead + sizeof(std::uint32_t);  // and its checksum's
  const auto message = [](std::size_t count) { return count * sizeof(float) + kAround; };
  const std::size_t own = floats / n, parts = std::min(floats, n);  // parts that are not empty
  const std::size_t to_owners = parts - (own > 0);
  const double all = static_cast<double>((floats * sizeof(float) + parts * kAround) * (n - 1));
  const double mean = all / ranks;
  const double most = static_cast<double>((n - 1) * message((floats + n - 1) / n));
  legs.push_back({.sent = (floats - own) * sizeof(float) + to_owners * kAround,
                  .messages = 2 * to_owners,
                  .out = mean,
                  .in = mean,
                  .most_out = mean,
                  .most_in = most,
                  .encoded = encoded});
  legs.push_back({.sent = own > 0 ? (n - 1) * message(own) : 0,
                  .messages = own > 0 ? 2 * (n - 1) : 0,
                  .out = mean,
                  .in = mean,
                  .most_out = most,
                  .most_in = mean,
                  .summed = static_cast<double>(floats)});
}

}  // namespace laconic
