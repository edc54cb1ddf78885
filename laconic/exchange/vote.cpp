// Ballots as bytes, and what they must have in common.
#include "laconic/exchange/vote.h"

#include <bit>
#include <cmath>

#include "laconic/base/errors.h"
#include "laconic/codecs/crc32c.h"

namespace laconic {
namespace {

constexpr std::uint32_t kMagic = 0x3156434c;                      // "LCV1"
constexpr std::size_t kMeasures = 44, kCheck = kBallotBytes - 4;  // where they stand
constexpr float Measures::*kMeasured[] = {
    &Measures::period, &Measures::kernels, &Measures::exposed,    &Measures::wire,
    &Measures::bytes,  &Measures::probe,   &Measures::probe_bytes};
static_assert(kMeasures + 4 * std::size(kMeasured) == kCheck);

std::string text_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::committed:
      return "committed the step before";
    case Outcome::rolled_back:
      return "rolled the step before back";
    case Outcome::in_doubt:
      return "is in doubt of the step before";
    case Outcome::none:
      break;
  }
  return "has made no step before";
}

[[noreturn]] void refuse(std::size_t rank, const Ballot& first, const std::string& theirs,
                         const std::string& ours) {
  throw DataError("ranks differ in step " + std::to_string(first.step) + ": rank " +
                      std::to_string(rank) + " " + theirs + ", rank 0 " + ours,
                  static_cast<int>(rank));
}

Measures read_measures(ByteView bytes) {
  Measures measures;
  for (std::size_t i = 0; i < std::size(kMeasured); ++i) {
    const auto value = load<float>(bytes.data() + kMeasures + 4 * i);
    if (!std::isfinite(value) || std::signbit(value))
      throw DataError("the vote says what this build does not know");
    measures.*kMeasured[i] = value;
  }
  return measures;
}

}  // namespace

std::array<std::uint8_t, kBallotBytes> write_ballot(const Ballot& ballot) {
  std::array<std::uint8_t, kBallotBytes> bytes{};
  store(bytes.data(), kMagic);
  store(bytes.data() + 4, ballot.schedule);
  store(bytes.data() + 8, ballot.attempt);
  store(bytes.data() + 16, ballot.step);
  store(bytes.data() + 24, ballot.inputs);
  store(bytes.data() + 28, ballot.flags);
  store(bytes.data() + 32, ballot.scale);
  bytes[36] = ballot.finite ? 1 : 0;
  bytes[37] = static_cast<std::uint8_t>(ballot.before);
  bytes[38] = ballot.lane;
  store(bytes.data() + 40, ballot.mixed);
  for (std::size_t i = 0; i < std::size(kMeasured); ++i)
    store(bytes.data() + kMeasures + 4 * i, ballot.measures.*kMeasured[i]);
  store(bytes.data() + kCheck, crc32c(ByteView(bytes).first(kCheck)));
  return bytes;
}

Ballot read_ballot(ByteView bytes) {
  if (bytes.size() != kBallotBytes || load<std::uint32_t>(bytes.data()) != kMagic ||
      load<std::uint32_t>(bytes.data() + kCheck) != crc32c(bytes.first(kCheck)))
    throw DataError("the vote is damaged");
  if (bytes[36] > 1 || bytes[37] > static_cast<std::uint8_t>(Outcome::in_doubt) ||
      bytes[38] >= kLanes || bytes[39] != 0)
    throw DataError("the vote says what this build does not know");
  return {.attempt = load<std::uint64_t>(bytes.data() + 8),
          .step = load<std::uint64_t>(bytes.data() + 16),
          .schedule = load<std::uint32_t>(bytes.data() + 4),
          .inputs = load<std::uint32_t>(bytes.data() + 24),
          .flags = load<std::uint32_t>(bytes.data() + 28),
          .scale = load<float>(bytes.data() + 32),
          .finite = bytes[36] == 1,
          .before = static_cast<Outcome>(bytes[37]),
          .mixed = load<std::uint32_t>(bytes.data() + 40),
          .lane = bytes[38],
          .measures = read_measures(bytes)};
}

void require_same(std::span<const Ballot> ballots) {
  const Ballot& first = ballots[0];
  for (std::size_t rank = 1; rank < ballots.size(); ++rank) {
    const Ballot& other = ballots[rank];
    if (other.step != first.step)
      refuse(rank, first, "is in step " + std::to_string(other.step), "in this one");
    if (other.before != first.before)
      refuse(rank, first, text_of(other.before), text_of(first.before));
    if (other.mixed != first.mixed)
      refuse(rank, first, "committed other tensors of the steps before", "these");
    if (other.lane != first.lane)
      refuse(rank, first, "takes lane '" + std::string(lane_name(other.lane)) + "'",
             "lane '" + std::string(lane_name(first.lane)) + "'");
    if (other.schedule != first.schedule)
      refuse(rank, first, "has submitted other tensors or in another order", "has not");
    if (std::bit_cast<std::uint32_t>(other.scale) != std::bit_cast<std::uint32_t>(first.scale))
      refuse(rank, first, "has a loss scale of " + std::to_string(other.scale),
             "one of " + std::to_string(first.scale));
    if (other.inputs != first.inputs || other.finite != first.finite)
      refuse(rank, first, "has received something else", "has another mean");
  }
}

}  // namespace laconic
