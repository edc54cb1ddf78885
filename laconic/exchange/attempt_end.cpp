// How a step ends: ranks vote, and all have made it or none has.
#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/exchange/attempt.h"

namespace laconic {
namespace {

// No unit has these numbers.
constexpr std::uint32_t kVoteUnit = ~std::uint32_t{0}, kProbeUnit = kVoteUnit - 1;

}  // namespace

// What was measured of the last step, if it came to its end, and the lane of this one.
void Attempt::take_lane() {
  if (common_.lanes) common_.lanes->take(info_.plain ? Lane::dense : Lane::recipe);
  if (!common_.guard) return;
  const auto now = Clock::now();
  measures_before_ = {};
  if (phase == Phase::ended) {
    measures_before_ = measures_;
    measures_before_.period = std::chrono::duration<float>(now - begun_).count();
    measures_before_.kernels =
        static_cast<float>(stats_.compress_seconds + stats_.decompress_seconds);
    measures_before_.exposed = static_cast<float>(stats_.exposed_seconds);
  }
  measures_ = {};
  begun_ = now;
  wire_.reset();
  probing_ = false;
  bytes_then_ = common_.transport.bytes_sent();
  if (!info_.plain) common_.lanes->take(common_.guard->lane(info_.step));
}

// Sends this rank's ballot when nothing can fail any more, and counts all when they are there.
bool Attempt::vote() {
  if (voted_) return land_probe();
  if (!last_closed_) return false;
  if (!voting_) {
    if (!all_are(exchange().framed() ? State::opened : State::written)) return false;
    send_vote();
    return true;
  }
  if (!all_are(State::written) || (common_.ranks > 1 && !test(vote_))) return false;
  count_votes();
  return true;
}

void Attempt::send_vote() {
  const std::uint64_t before = common_.transport.bytes_sent();
  bytes_of_units_ = before;
  measures_.bytes = static_cast<float>(before - bytes_then_);
  votes_[common_.me] = write_ballot(ballot());
  vote_.clear();
  for (std::size_t i = 1; i < common_.ranks; ++i) {
    const std::size_t rank = (common_.me + i) % common_.ranks;
    vote_.sends.push_back({static_cast<int>(rank), votes_[common_.me]});
    vote_.receives.push_back(Receive::exactly(static_cast<int>(rank), votes_[rank]));
  }
  vote_.operation = "vote";
  vote_.due = due();
  voting_ = true;
  if (common_.ranks > 1) start({number_, kVoteUnit, 0}, vote_);
  stats_.vote_bytes = common_.transport.bytes_sent() - before;
}

Ballot Attempt::ballot() const {
  const Lane lane = common_.lanes ? common_.lanes->lane() : Lane::recipe;
  Ballot ballot{.attempt = number_,
                .step = info_.step,
                .schedule = submitted.schedule(),
                .flags = info_.flags,
                .scale = info_.scale,
                .finite = stats_.finite && (exchange().framed() || means_finite_),
                .before = before_.outcome,
                .mixed = before_.mixed,
                .lane = static_cast<std::uint8_t>(lane),
                .measures = measures_before_};
  for (std::size_t i = 0; i < formed_; ++i)
    ballot.inputs = hash_of(
        ballot.inputs, exchange().framed() ? flights_[i]->unit->inputs() : flights_[i]->results);
  return ballot;
}

// A ballot that is none, or one of another attempt, says nothing of this one.
void Attempt::count_votes() {
  ballots_.clear();
  for (std::size_t rank = 0; rank < common_.ranks; ++rank) try {
      ballots_.push_back(read_ballot(votes_[rank]));
      if (ballots_.back().attempt != number_) throw DataError("the vote is of another attempt");
    } catch (const DataError& error) {
      throw DataError("from rank " + std::to_string(rank) + " in step " +
                          std::to_string(info_.step) + ": " + error.what(),
                      static_cast<int>(rank));
    }
  voted_ = true;
  require_same(ballots_);
  for (const Ballot& ballot : ballots_) stats_.flags |= ballot.flags;
  if (common_.lanes) stats_.lane = common_.lanes->lane();
  if (!common_.guard) return end();
  // What the last to start has sent is in nobody's hands when it has all that it waits for itself:
  // when all have voted it is.
  measures_.wire = static_cast<float>(
      wire_.seconds(since_begin_.time(), bytes_of_units_, bytes_of_units_ - bytes_then_));
  Stopwatch watch;
  const Decision decision = common_.guard->at(info_.step);
  stats_.advised = decision.lane;
  common_.guard->count(ballots_);
  stats_.guard_seconds = watch.lap();
  stats_.predicted_gain = common_.guard->predicted_gain();
  stats_.measured_gain = common_.guard->measured_gain();
  if (decision.probe > 0)
    send_probe(decision.probe);
  else
    end();
}

// All ranks have voted, so all begin at about the same time, with nothing else to do. What becomes
// of it changes nothing of the step, which has happened.
void Attempt::send_probe(std::uint32_t bytes) {
  const auto n = static_cast<int>(common_.ranks), me = static_cast<int>(common_.me);
  const std::uint64_t before = common_.transport.bytes_sent();
  probe_out_.resize(bytes);
  probe_in_.resize(bytes);
  probe_.clear();
  probe_.sends.push_back({(me + 1) % n, probe_out_});
  probe_.receives.push_back(Receive::exactly((me + n - 1) % n, probe_in_));
  probe_.operation = "probe of the link";
  probe_.due = due();
  probing_ = true;
  probed_ = Clock::now();
  try {
    start({number_, kProbeUnit, 0}, probe_);
  } catch (const Error&) {
  }
  stats_.probe_bytes = common_.transport.bytes_sent() - before;
}

bool Attempt::land_probe() {
  if (!probing_) return false;
  try {
    if (probe_.flies() && !test(probe_)) {
      if (Clock::now() < probe_.due) return false;
      common_.transport.cancel(probe_);
    } else if (probe_.done()) {
      measures_.probe = std::chrono::duration<float>(Clock::now() - probed_).count();
      measures_.probe_bytes = static_cast<float>(probe_in_.size());
    }
  } catch (const Error&) {  // the next step will tell
  }
  probing_ = false;
  stats_.guard_seconds += std::chrono::duration<double>(Clock::now() - probed_).count();
  end();
  return true;
}

// The step has happened on all ranks.
void Attempt::end() {
  stats_.finite &= means_finite_;
  common_.transport.close_attempt(number_);
  const std::lock_guard lock(common_.mutex);
  outcome = Outcome::rolled_back;  // until it is committed
  pending = stats_.finite;
  phase = Phase::ended;
  common_.changed.notify_all();
}

void Attempt::fail() {
  const std::exception_ptr error_now = std::current_exception();
  bool told = false, doubt = voting_ && !voted_;
  int culprit = static_cast<int>(common_.me);
  std::string reason = "an unknown error";
  try {
    std::rethrow_exception(error_now);
  } catch (const Aborted& error) {
    told = true;
    doubt = false;  // who aborts has not voted
    culprit = error.rank();
    reason = error.what();
  } catch (const Error& error) {
    if (error.rank() != kNobody) culprit = error.rank();
    reason = error.what();
  } catch (const std::exception& error) {
    reason = error.what();
  }
  try {
    if (doubt)
      common_.transport.poison(culprit, reason);
    else if (!told && !voted_)
      common_.transport.abort(number_, culprit, reason);
  } catch (const std::exception&) {  // the transport itself is gone
  }
  for (std::size_t i = 0; i < formed_; ++i) common_.transport.cancel(flights_[i]->transfer);
  common_.transport.cancel(vote_);
  common_.transport.cancel(probe_);
  try {
    common_.transport.close_attempt(number_);
  } catch (const std::exception&) {
  }
  const std::lock_guard lock(common_.mutex);
  outcome = doubt ? Outcome::in_doubt : Outcome::rolled_back;
  pending = false;
  failure = error_now;
  phase = Phase::failed;
  common_.changed.notify_all();
}

Transfer* Attempt::awaited() {
  if (probing_) return probe_.flies() ? &probe_ : nullptr;
  Transfer* first = voting_ && !voted_ && vote_.flies() ? &vote_ : nullptr;
  for (std::size_t i = 0; i < formed_; ++i) {
    Transfer& transfer = flights_[i]->transfer;
    if (flights_[i]->state == State::flying && (!first || transfer.due < first->due))
      first = &transfer;
  }
  return first;
}

void Attempt::rest(Transfer& first, Clock::time_point until) {
  const Timed timed(stats_.exchange_seconds);
  if (!probing_ && Clock::now() >= first.due)
    throw common_.transport.lost(first,
                                 {first.due, common_.setup.timeout_seconds, first.operation});
  common_.transport.idle(std::min(first.due, until));
}

bool Attempt::waits_for_transport() const {
  if ((voting_ && !voted_) || probing_) return true;
  return std::any_of(flights_.begin(), flights_.begin() + static_cast<std::ptrdiff_t>(formed_),
                     [](const auto& flight) { return flight->state == State::flying; });
}

bool Attempt::has_new() const {
  return phase == Phase::open && (!submitted.inbox_empty() || (!aborting.empty() && !voted_) ||
                                  (finishing && !last_closed_));
}

bool Attempt::has_work() const {
  return has_new() || (phase == Phase::open && waits_for_transport());
}

bool Attempt::is_done(std::size_t part) const {
  if (phase == Phase::failed) std::rethrow_exception(failure);
  if (!submitted.known(part))
    throw UsageError("part " + std::to_string(part) + " was not submitted in this step");
  return phase == Phase::ended || (submitted.done(part) && !submitted.completes(part));
}

Attempt::Clock::time_point Attempt::due() const {
  return Deadline::in(common_.setup.timeout_seconds, "").at;
}

}  // namespace laconic
