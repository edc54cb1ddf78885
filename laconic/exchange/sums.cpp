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

}  // namespace

void Reduction::begin(const Cells& cells, std::span<std::uint8_t> shares,
                      std::span<std::uint8_t> sums, int rank, int ranks) {
  cells_ = cells;
  shares_ = shares;
  sums_ = sums;
  rank_ = rank;
  ranks_ = ranks;
  leg_ = 0;
  received_.resize(at(ranks));
  together_.resize(at(ranks));
  out_.resize(at(ranks));
  in_.assign(at(ranks), {});
  found_.resize(at(ranks));
}

std::span<std::uint8_t> Reduction::part(std::span<std::uint8_t> bytes, std::size_t cell,
                                        int rank) const {
  const std::size_t r = at(rank), n = at(ranks_);
  const std::size_t from = cells_.count * r / n, to = cells_.count * (r + 1) / n;
  return bytes.subspan(from * cell, (to - from) * cell);
}

void Reduction::require(std::uint32_t found, int from) const {
  if (found != load<std::uint32_t>(in_[at(from)].data()))
    throw DataError(
        "the " + std::string(what()) + " from rank " + std::to_string(from) + " are damaged", from);
}

bool Reduction::next(Transfer& transfer) {
  if (leg_ == 1) add_up();
  if (leg_ == 2) check_sums();
  if (ranks_ == 1 || cells_.count == 0 || leg_ == 2) return false;
  transfer.clear();
  for (int i = 1; i < ranks_; ++i) {
    const int to = (rank_ + i) % ranks_, from = (rank_ + ranks_ - i) % ranks_;
    const auto out = leg_ == 0 ? shares_of(to) : sums_of(rank_);
    if (!out.empty()) {
      if (leg_ == 0) store(out_[at(to)].data(), crc32c(out));
      transfer.sends.push_back({to, leg_ == 0 ? out_[at(to)] : in_[at(rank_)]});
      transfer.sends.push_back({to, out});
    }
    const auto in = leg_ == 0 ? shares_of(rank_) : sums_of(from);
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
void Reduction::add_up() {
  const auto own = shares_of(rank_), mine = sums_of(rank_);
  std::ranges::fill(found_, 0);
  for (std::size_t cell = 0; cell * cells_.sum < mine.size(); cell += block()) {
    const auto sums = mine.subspan(cell * cells_.sum,
                                   std::min(block() * cells_.sum, mine.size() - cell * cells_.sum));
    const std::size_t bytes = sums.size() / cells_.sum * cells_.share;
    for (int rank = 0; rank < ranks_; ++rank) {
      const ByteView all = rank == rank_ ? ByteView(own) : received_[at(rank)].view();
      together_[at(rank)] = all.subspan(cell * cells_.share, bytes);
      if (rank != rank_) found_[at(rank)] = crc32c(together_[at(rank)], found_[at(rank)]);
    }
    add(together_, sums);
    found_[at(rank_)] = crc32c(sums, found_[at(rank_)]);
  }
  for (int rank = 0; rank < ranks_ && !mine.empty(); ++rank)
    if (rank != rank_) require(found_[at(rank)], rank);
  in_.assign(at(ranks_), {});  // from here on of sums, which all ranks have
  store(in_[at(rank_)].data(), found_[at(rank_)]);
}

void Reduction::check_sums() const {
  for (int rank = 0; rank < ranks_; ++rank)
    if (rank != rank_ && !sums_of(rank).empty()) require(crc32c(sums_of(rank)), rank);
}

std::uint32_t Reduction::hash() const {
  std::uint32_t hash = 0;
  for (const Checksum& part : in_) hash = crc32c(part, hash);
  return hash;
}

void Sum::begin(std::span<float> values, int rank, int ranks) {
  const std::span bytes(reinterpret_cast<std::uint8_t*>(values.data()), values.size_bytes());
  Reduction::begin({.count = values.size()}, bytes, bytes, rank, ranks);
}

std::size_t Sum::block() const { return kBlock; }

void Sum::add(std::span<const ByteView> shares, std::span<std::uint8_t> sums) {
  float own[kBlock];
  std::memcpy(own, sums.data(), sums.size());
  const std::span block(reinterpret_cast<float*>(sums.data()), sums.size() / sizeof(float));
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto* values = reinterpret_cast<const float*>(shares[at(rank)].data());
    if (rank == this->rank()) values = own;
    if (rank == 0)
      std::copy_n(values, block.size(), block.begin());
    else
      kernels::add_scaled(values, 1, block);
  }
}

void foresee_sum(const Cells& cells, int ranks, double encoded, std::vector<ForeseenLeg>& legs) {
  if (ranks == 1 || cells.count == 0) return;
  const auto n = static_cast<std::size_t>(ranks);
  constexpr std::size_t kAround = 2 * kMessageHead + sizeof(std::uint32_t);  // and its checksum's
  const std::size_t own = cells.count / n;
  const std::size_t parts = std::min(cells.count, n);  // that are not empty
  const std::size_t to_owners = parts - (own > 0);
  const auto mean = [&](std::size_t cell) {
    return static_cast<double>((cells.count * cell + parts * kAround) * (n - 1)) / ranks;
  };
  const auto most = [&](std::size_t cell) {
    return static_cast<double>((n - 1) * ((cells.count + n - 1) / n * cell + kAround));
  };
  legs.push_back({.sent = (cells.count - own) * cells.share + to_owners * kAround,
                  .messages = 2 * to_owners,
                  .out = mean(cells.share),
                  .in = mean(cells.share),
                  .most_out = mean(cells.share),
                  .most_in = most(cells.share),
                  .encoded = encoded});
  legs.push_back({.sent = own > 0 ? (n - 1) * (own * cells.sum + kAround) : 0,
                  .messages = own > 0 ? 2 * (n - 1) : 0,
                  .out = mean(cells.sum),
                  .in = mean(cells.sum),
                  .most_out = most(cells.sum),
                  .most_in = mean(cells.sum),
                  .summed = static_cast<double>(cells.count)});
}

}  // namespace laconic
