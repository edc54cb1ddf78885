// Attempts of one rank.
#include "laconic/transports/attempts.h"

#include <algorithm>

namespace laconic {
namespace {

// Of attempts to come. Ranks are a few attempts apart, so more than this is nonsense of a peer's.
constexpr std::size_t kMostAborted = 4096;

}  // namespace

Verdict read_verdict(int from, int size, const Head& head, ByteView bytes) {
  const Reason reason = read_reason(bytes, from);
  const auto ranks = static_cast<std::uint64_t>(size);
  if (reason.culprit < kNobody || reason.culprit >= size || head.sequence >= ranks)
    throw DataError("rank " + std::to_string(from) + " blames a rank that is none", from);
  return {static_cast<int>(head.sequence), reason.culprit, reason.text};
}

std::uint64_t Attempts::open() {
  check_poison();
  open_.push_back(next_);
  return next_++;
}

void Attempts::close(std::uint64_t attempt) {
  std::erase(open_, attempt);
  std::erase_if(aborted_, [&](const auto& entry) { return entry.first == attempt; });
}

bool Attempts::is_open(std::uint64_t attempt) const {
  return std::ranges::find(open_, attempt) != open_.end();
}

bool Attempts::abort(std::uint64_t attempt, Verdict verdict) {
  if (is_aborted(attempt) || is_closed(attempt) || aborted_.size() >= kMostAborted) return false;
  aborted_.emplace_back(attempt, std::move(verdict));
  return true;
}

bool Attempts::is_aborted(std::uint64_t attempt) const {
  return std::ranges::any_of(aborted_, [&](const auto& entry) { return entry.first == attempt; });
}

bool Attempts::poison(Verdict verdict) {
  if (poisoned_) return false;
  poisoned_ = std::move(verdict);
  return true;
}

void Attempts::require_open(std::uint64_t attempt) const {
  if (!is_open(attempt)) throw UsageError("attempt " + std::to_string(attempt) + " is not open");
}

void Attempts::check(std::uint64_t attempt) const {
  check_poison();
  for (const auto& [aborted, verdict] : aborted_)
    if (aborted == attempt) throw Aborted(verdict.sentence, verdict.culprit);
}

void Attempts::check_poison() const {
  if (poisoned_) throw TransportError(poisoned_->sentence, poisoned_->culprit);
}

}  // namespace laconic
