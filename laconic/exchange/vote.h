// The last message of a step: what a rank tells all others before anybody commits.
#pragma once

#include <array>
#include <span>
#include <string>

#include "laconic/base/bytes.h"
#include "laconic/exchange/aggregator.h"

namespace laconic {

// A rank that sends one has opened all that arrived: it can commit.
struct Ballot {
  std::uint64_t attempt = 0, step = 0;
  std::uint32_t schedule = 0;  // a hash of the parts submitted, in order
  std::uint32_t inputs = 0;    // a hash of all that the means were made of
  std::uint32_t flags = 0;     // the host's
  float scale = 1;             // the loss scale
  bool finite = true;
  Outcome before = Outcome::none;  // what became of the step before

  friend bool operator==(const Ballot&, const Ballot&) = default;
};

inline constexpr std::size_t kBallotBytes = 48;

// A checksum of its own stands at the end.
std::array<std::uint8_t, kBallotBytes> write_ballot(const Ballot& ballot);

// Throws DataError for anything that no rank has written.
Ballot read_ballot(ByteView bytes);

// For ballots of one attempt. Throws DataError that names a rank whose ballot says otherwise than
// rank 0's, and in what: all ranks have the same ballots, so all throw the same. Flags may differ.
void require_same(std::span<const Ballot> ballots);

}  // namespace laconic
