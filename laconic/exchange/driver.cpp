// The engine's work, in the order in which a unit meets it: parts become units, units fly leg by
// leg, land, are opened and written; when all were, ranks vote.
#include "laconic/exchange/driver.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "laconic/base/errors.h"
#include "laconic/kernels/reduce.h"
#include "laconic/kernels/stream.h"

namespace laconic {
namespace {

constexpr std::size_t kMostFlying = 4;     // units under way before decoding comes first
constexpr std::size_t kBlocksAtOnce = 16;  // of one thread
// No unit has these numbers.
constexpr std::uint32_t kVoteUnit = ~std::uint32_t{0}, kProbeUnit = kVoteUnit - 1;

float seconds_since(std::chrono::steady_clock::time_point then) {
  const auto time = std::chrono::steady_clock::now() - then;
  return static_cast<float>(std::chrono::duration<double>(time).count());
}

std::span<const std::uint8_t> bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()};
}

}  // namespace

// One round of everything there is to do. False: nothing could be done.
bool Aggregator::Driver::pump() {
  bool any = take_parts();
  any |= fly();
  if (launch()) return true;
  any |= land();
  return vote() || any;
}

bool Aggregator::Driver::take_parts() {
  bool any = false;
  // One look at both: what is put into the inbox before the host finishes belongs to the step.
  std::unique_lock lock(mutex_);
  if (!aborting_.empty() && !voted_) throw SystemError(aborting_);
  for (; !submitted_.inbox_empty(); any = true) {
    if (!forming_) {
      if (flights_.size() == formed_) {
        flights_.push_back(std::make_unique<Flight>());
        flights_.back()->unit = exchange_->make_unit();
      }
      flights_[formed_]->unit->slices.clear();
      forming_ = true;
    }
    const std::size_t bytes = submitted_.take(flights_[formed_]->unit->slices);
    stats_.dense_bytes += bytes;
    forming_bytes_ += bytes;
    if (forming_bytes_ >= setup_.unit_bytes || submitted_.all_there()) close_unit();
  }
  if (finishing_ && !last_closed_) {
    if (const auto names = submitted_.lacking(nullptr); !names.empty())
      throw UsageError("the step ends without tensor '" + names[0] +
                       "', whose slice has others that were submitted");
    close_unit();
    last_closed_ = any = true;
  }
  lock.unlock();
  if (fenced_ && last_closed_) {
    measure_gradient();
    fenced_ = false;
    any = true;
  }
  return any;
}

// What was completed since the last one travels together from here on.
void Aggregator::Driver::close_unit() {
  forming_bytes_ = 0;
  last_closed_ |= submitted_.all_there();
  if (!std::exchange(forming_, false)) return;
  Flight& flight = *flights_[formed_];
  if (flight.unit->slices.empty()) return;
  std::ranges::sort(flight.unit->slices);
  flight.unit->reset();
  flight.state = State::closed;
  flight.leg = flight.results = 0;
  ++formed_;
}

void Aggregator::Driver::measure_gradient() {
  const Places& places = submitted_.gradient().places();
  double sum = 0;
  float buffer[kBlock];
  for (std::size_t t = 0; t < places.tensors(); ++t) {
    if (!submitted_.gradient().has(t)) continue;
    const Slice all{.name = {}, .offset = places.begin(t), .count = places.count(t)};
    const Floats values = submitted_.gradient().floats(all);
    for (std::size_t from = 0; from < all.count; from += kBlock) {
      const std::size_t count = std::min(kBlock, all.count - from);
      sum += kernels::sum_of_squares({values.load(from, count, buffer), count});
    }
  }
  exchange_->norm(std::sqrt(sum));
}

// Asks after all that flies; what has arrived goes on with its next leg.
bool Aggregator::Driver::fly() {
  bool any = false;
  for (std::size_t i = 0; i < formed_; ++i)
    if (flights_[i]->state == State::flying && transport_.test(flights_[i]->transfer)) {
      if (--under_way_ == 0) measures_.wire += seconds_since(under_way_since_);
      advance(i);
      any = true;
    }
  return any;
}

// Encodes and sends the next unit while few are under way, so that the link is never idle. Where
// asking blocks, one unit after the other makes all its legs, in the same order on all ranks.
bool Aggregator::Driver::launch() {
  if (fenced_) return false;
  std::size_t flying = 0, next = formed_;
  for (std::size_t i = formed_; i-- > 0;) {
    flying += flights_[i]->state == State::flying;
    if (flights_[i]->state == State::closed) next = i;
  }
  if (next == formed_ || flying >= (transport_.blocks() ? 1 : kMostFlying)) return false;
  if (setup_.zeros_rest)
    for (const std::size_t i : flights_[next]->unit->slices) submitted_.look(plan_->layout[i]);
  advance(next);
  return true;
}

void Aggregator::Driver::advance(std::size_t number) {
  Flight& flight = *flights_[number];
  for (;;) {
    const Move move = flight.unit->next(step(), flight.transfer);
    if (move == Move::none) {
      flight.state = State::arrived;
      return;
    }
    const Tag tag{attempt_, static_cast<std::uint32_t>(number), flight.leg++};
    flight.transfer.operation = "average of gradients";
    flight.transfer.due = due();
    if (move == Move::reduce) {
      transport_.start_reduce(tag, flight.unit->values(), flight.transfer);
    } else {
      if (flight.transfer.sends.empty() && flight.transfer.receives.empty()) continue;
      transport_.start(tag, flight.transfer);
    }
    flight.state = State::flying;
    if (under_way_++ == 0) under_way_since_ = Clock::now();
    return;
  }
}

// Opens what has arrived; writes the means of one unit.
bool Aggregator::Driver::land() {
  bool any = false;
  for (std::size_t i = 0; i < formed_; ++i)
    if (flights_[i]->state == State::arrived) {
      flights_[i]->unit->open(step());
      flights_[i]->state = State::opened;
      any = true;
    }
  if (exchange_->framed() && last_closed_ && !voting_ && all_are(State::opened)) return any;
  for (std::size_t i = 0; i < formed_; ++i)
    if (flights_[i]->state == State::opened) {
      write(*flights_[i]);
      flights_[i]->state = State::written;
      return true;
    }
  return any;
}

// At least so far.
bool Aggregator::Driver::all_are(State state) const {
  return std::all_of(flights_.begin(), flights_.begin() + static_cast<std::ptrdiff_t>(formed_),
                     [&](const auto& flight) { return flight->state >= state; });
}

void Aggregator::Driver::write(Flight& flight) {
  const Timed timed(stats_.decompress_seconds);
  for (std::size_t place = 0; place < flight.unit->slices.size(); ++place)
    write_slice(flight, place);
  {
    const std::lock_guard lock(mutex_);
    for (const std::size_t i : flight.unit->slices) submitted_.written(plan_->layout[i]);
  }
  changed_.notify_all();
}

void Aggregator::Driver::write_slice(Flight& flight, std::size_t place) {
  const std::size_t count = plan_->layout[flight.unit->slices[place]].count;
  const Floats out = submitted_.gradient().floats(plan_->layout[flight.unit->slices[place]]);
  if (scratch_.pool.threads() == 1 || !exchange_->parallel() || !exchange_->framed()) {
    means_finite_ &= write_blocks(flight, place, out, 0, count);
    return;
  }
  std::atomic<bool> finite = true;
  constexpr std::size_t kRun = kBlocksAtOnce * kBlock;
  scratch_.pool.each((count + kRun - 1) / kRun, [&](std::size_t run, unsigned) {
    if (!write_blocks(flight, place, out, run * kRun, std::min(count, (run + 1) * kRun)))
      finite = false;
  });
  means_finite_ &= finite;
}

// Entries [from, to) of a slice's mean, each written once. Whether all are finite, in the host's
// own type.
bool Aggregator::Driver::write_blocks(Flight& flight, std::size_t place, const Floats& out,
                                      std::size_t from, std::size_t to) {
  const Slice& slice = plan_->layout[flight.unit->slices[place]];
  bool finite = true;
  // Where means are mostly zeros a block is made in the cache and written past it.
  const bool sparse = plan_->op(flight.unit->slices[place]).selects();
  float* const streamed = sparse && slice.count >= kernels::kStreamed ? out.array() : nullptr;
  float buffer[kBlock], again[kBlock];
  for (; from < to; from += kBlock) {
    const std::size_t count = std::min(kBlock, to - from);
    const std::span<float> block(streamed ? buffer : out.place(from, count, buffer), count);
    flight.unit->mean(step(), place, from, block);
    exchange_->finish(slice, from, block);
    if (!exchange_->framed()) flight.results = crc32c(bytes_of(block), flight.results);
    if (streamed) {
      finite &= kernels::all_finite(block);
      kernels::stream(buffer, count, streamed + from);
    } else {
      out.store(from, count, block.data());
      finite &= kernels::all_finite({out.load(from, count, again), count});
    }
  }
  return finite;
}

// Sends this rank's ballot when nothing can fail any more, and counts all when they are there.
bool Aggregator::Driver::vote() {
  if (voted_) return land_probe();
  if (!last_closed_) return false;
  if (!voting_) {
    if (!all_are(exchange_->framed() ? State::opened : State::written)) return false;
    send_vote();
    return true;
  }
  if (!all_are(State::written) || (votes_.size() > 1 && !transport_.test(vote_))) return false;
  count_votes();
  return true;
}

void Aggregator::Driver::send_vote() {
  const std::uint64_t before = transport_.bytes_sent();
  measures_.bytes = static_cast<float>(before - bytes_then_);
  votes_[me_] = write_ballot(ballot());
  vote_.clear();
  for (std::size_t i = 1; i < votes_.size(); ++i) {
    const std::size_t rank = (me_ + i) % votes_.size();
    vote_.sends.push_back({static_cast<int>(rank), votes_[me_]});
    vote_.receives.push_back(Receive::exactly(static_cast<int>(rank), votes_[rank]));
  }
  vote_.operation = "vote";
  vote_.due = due();
  voting_ = true;
  if (votes_.size() > 1) transport_.start({attempt_, kVoteUnit, 0}, vote_);
  stats_.vote_bytes = transport_.bytes_sent() - before;
}

Ballot Aggregator::Driver::ballot() const {
  Ballot ballot{.attempt = attempt_,
                .step = info_.step,
                .schedule = submitted_.schedule(),
                .flags = info_.flags,
                .scale = info_.scale,
                .finite = stats_.finite && (exchange_->framed() || means_finite_),
                .before = outcome_,
                .lane = static_cast<std::uint8_t>(lanes_ ? lanes_->lane() : Lane::recipe),
                .measures = measures_before_};
  for (std::size_t i = 0; i < formed_; ++i)
    ballot.inputs = hash_of(
        ballot.inputs, exchange_->framed() ? flights_[i]->unit->inputs() : flights_[i]->results);
  return ballot;
}

// A ballot that is none, or one of another attempt, says nothing of this one.
void Aggregator::Driver::count_votes() {
  ballots_.clear();
  for (std::size_t rank = 0; rank < votes_.size(); ++rank) try {
      ballots_.push_back(read_ballot(votes_[rank]));
      if (ballots_.back().attempt != attempt_) throw DataError("the vote is of another attempt");
    } catch (const DataError& error) {
      throw DataError("from rank " + std::to_string(rank) + " in step " +
                          std::to_string(info_.step) + ": " + error.what(),
                      static_cast<int>(rank));
    }
  voted_ = true;
  require_same(ballots_);
  for (const Ballot& ballot : ballots_) stats_.flags |= ballot.flags;
  if (!guard_) return end();
  const Decision decision = guard_->at(info_.step);
  stats_.lane = lanes_->lane();
  stats_.advised = decision.lane;
  guard_->count(ballots_);
  stats_.predicted_gain = guard_->predicted_gain();
  stats_.measured_gain = guard_->measured_gain();
  if (decision.probe > 0)
    send_probe(decision.probe);
  else
    end();
}

// All ranks have voted, so all begin at about the same time, with nothing else to do. What becomes
// of it changes nothing of the step, which has happened.
void Aggregator::Driver::send_probe(std::uint32_t bytes) {
  const auto n = static_cast<int>(votes_.size()), me = static_cast<int>(me_);
  const std::uint64_t before = transport_.bytes_sent();
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
    transport_.start({attempt_, kProbeUnit, 0}, probe_);
  } catch (const Error&) {
  }
  stats_.probe_bytes = transport_.bytes_sent() - before;
}

bool Aggregator::Driver::land_probe() {
  if (!probing_) return false;
  try {
    if (probe_.flies() && !transport_.test(probe_)) {
      if (Clock::now() < probe_.due) return false;
      transport_.cancel(probe_);
    } else if (probe_.done()) {
      measures_.probe = seconds_since(probed_);
      measures_.probe_bytes = static_cast<float>(probe_in_.size());
    }
  } catch (const Error&) {  // the next step will tell
  }
  probing_ = false;
  end();
  return true;
}

// The step has happened on all ranks.
void Aggregator::Driver::end() {
  meter_.into(stats_);
  stats_.finite &= means_finite_;
  transport_.close_attempt(attempt_);
  const std::lock_guard lock(mutex_);
  outcome_ = Outcome::rolled_back;  // until it is committed
  pending_ = stats_.finite;
  phase_ = Phase::ended;
  changed_.notify_all();
}

// The step has happened on no rank; or, when this one has voted and cannot know, it is in doubt.
void Aggregator::Driver::fail() {
  std::exception_ptr failure = std::current_exception();
  bool told = false, doubt = voting_ && !voted_;
  int culprit = static_cast<int>(me_);
  std::string reason = "an unknown error";
  try {
    std::rethrow_exception(failure);
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
      transport_.poison(culprit, reason);
    else if (!told && !voted_)
      transport_.abort(attempt_, culprit, reason);
  } catch (const std::exception&) {  // the transport itself is gone
  }
  for (std::size_t i = 0; i < formed_; ++i) transport_.cancel(flights_[i]->transfer);
  transport_.cancel(vote_);
  transport_.cancel(probe_);
  try {
    transport_.close_attempt(attempt_);
  } catch (const std::exception&) {
  }
  meter_.into(stats_);
  const std::lock_guard lock(mutex_);
  outcome_ = doubt ? Outcome::in_doubt : Outcome::rolled_back;
  pending_ = false;
  failure_ = failure;
  phase_ = Phase::failed;
  changed_.notify_all();
}

// Waits for the transport, until then at most, and gives up on what takes too long.
void Aggregator::Driver::rest(Clock::time_point until) {
  const Timed timed(stats_.exchange_seconds);
  Transfer* first = voting_ && !voted_ && vote_.flies() ? &vote_ : nullptr;
  if (probing_) {
    if (probe_.flies()) transport_.idle(std::min(probe_.due, until));
    return;
  }
  for (std::size_t i = 0; i < formed_; ++i) {
    Transfer& transfer = flights_[i]->transfer;
    if (flights_[i]->state == State::flying && (!first || transfer.due < first->due))
      first = &transfer;
  }
  if (!first) return;
  if (Clock::now() >= first->due)
    throw transport_.lost(*first, {first->due, setup_.timeout_seconds, first->operation});
  transport_.idle(std::min(first->due, until));
}

bool Aggregator::Driver::waits_for_transport() const {
  if ((voting_ && !voted_) || probing_) return true;
  return std::any_of(flights_.begin(), flights_.begin() + static_cast<std::ptrdiff_t>(formed_),
                     [](const auto& flight) { return flight->state == State::flying; });
}

Aggregator::Driver::Clock::time_point Aggregator::Driver::due() const {
  return Deadline::in(setup_.timeout_seconds, "").at;
}

}  // namespace laconic
