// The last message of a step: what a rank tells all others before anybody commits.
#pragma once

#include <array>
#include <span>
#include <string>

#include "laconic/base/bytes.h"
#include "laconic/exchange/aggregator.h"

namespace laconic {

// What a rank has measured of the step before, for the guard (guard.h); zeros where there is none.
struct Measures {
  float period = 0;       // seconds from one begin to the next
  float kernels = 0;      // seconds of one core: encoding and decoding
  float exposed = 0;      // seconds that callers were held up
  float wire = 0;         // seconds that its bytes took at most (wire_time.h)
  float bytes = 0;        // that this rank has sent of it
  float probe = 0;        // seconds that a probe took
  float probe_bytes = 0;  // and what it had

  friend bool operator==(const Measures&, const Measures&) = default;
};

// A rank that sends one has opened all that arrived: it can commit.
struct Ballot {
  std::uint64_t attempt = 0, step = 0;
  std::uint32_t schedule = 0;  // a hash of the parts submitted, in order
  std::uint32_t inputs = 0;    // a hash of all that the means were made of
  std::uint32_t flags = 0;     // the host's
  float scale = 1;             // the loss scale
  bool finite = true;
  Outcome before = Outcome::none;  // what became of the step before
  std::uint32_t mixed = 0;         // a hash of that by tensor, where it differs among tensors
  std::uint8_t lane = 0;           // by which this step was made
  Measures measures = {};

  friend bool operator==(const Ballot&, const Ballot&) = default;
};

inline constexpr std::size_t kBallotBytes = 76;

// A checksum of its own stands at the end.
std::array<std::uint8_t, kBallotBytes> write_ballot(const Ballot& ballot);

// Throws DataError for anything that no rank has written.
Ballot read_ballot(ByteView bytes);

// For ballots of one attempt. Throws DataError that names a rank whose ballot says otherwise than
// rank 0's, and in what: all ranks have the same ballots, so all throw the same. Flags may differ.
void require_same(std::span<const Ballot> ballots);

}  // namespace laconic
