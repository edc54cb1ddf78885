// The engine's work on one step, in the order in which a unit meets it: parts become units, units
// fly leg by leg, land, are opened and written. attempt_end.cpp goes on with the vote.
#include "laconic/exchange/attempt.h"

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
constexpr std::uint64_t kOfMemories = 3;   // beside those of make_keys, which operators draw from

std::span<const std::uint8_t> bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()};
}

}  // namespace

Common::Common(Setup given, std::unique_ptr<Exchange> made)
    : setup(std::move(given)),
      exchange(std::move(made)),
      transport(setup.transport),
      scratch(setup.threads),
      me(static_cast<std::size_t>(transport.rank())),
      ranks(static_cast<std::size_t>(transport.size())) {
  lanes = dynamic_cast<Lanes*>(exchange.get());
  if (!lanes || !has_guard(setup)) return;
  GuardFacts facts{.ranks = ranks,
                   .entries = count_of(setup.model),
                   .lanes = lanes->there(),
                   .bytes = lanes->bytes()};
  for (const laconic::Phase& phase : setup.warmup) facts.fences.push_back(phase.until);
  guard.emplace(setup.guard, facts);
}

Attempt::Attempt(Common& common, std::size_t slot)
    : submitted(common.setup.model), common_(common), slot_(slot), votes_(common.ranks) {}

void Attempt::begin(const StepInfo& info, std::span<const std::size_t> tensors,
                    const Before& before) {
  info_ = info;
  take_lane();
  info_.ranks = common_.ranks;
  info_.draws = Key(common_.setup.seed).fork(info.step).fork(kOfMemories).fork(common_.me);
  info_.slot = slot_;
  before_ = before;
  stats_ = {};
  since_begin_ = {};
  sent_.clear();
  formed_ = 0;
  forming_ = last_closed_ = voting_ = voted_ = false;
  means_finite_ = true;
  forming_bytes_ = 0;
  norm_.reset();
  number_ = common_.transport.open_attempt();
  try {
    plan_ = info_.plan = &exchange().plan_at(info.step);
    sent_.resize(plan_->layout.size());
    {
      const std::lock_guard lock(common_.mutex);  // somebody may still ask after the last step's
      submitted.begin(*plan_, tensors);
    }
    common_.turn = this;
    exchange().begin(info_);
    fenced_ = exchange().wants_norm();
  } catch (...) {
    fail();
    const std::lock_guard lock(common_.mutex);
    finished = true;
    throw;
  }
  const std::lock_guard lock(common_.mutex);
  finishing = finished = false;
  aborting.clear();
  failure = nullptr;
  exposed = 0;
  phase = Phase::open;
}

// Between steps over other tensors the exchange is told which of them comes now.
void Attempt::take_turn() {
  if (common_.turn == this) return;
  common_.turn = this;
  exchange().turn(info_);
  if (norm_) exchange().norm(*norm_);
}

bool Attempt::pump() {
  take_turn();
  bool any = take_parts();
  any |= fly();
  if (launch()) return true;
  any |= land();
  return vote() || any;
}

bool Attempt::take_parts() {
  bool any = false;
  // One look at both: what is put into the inbox before the host finishes belongs to the step.
  std::unique_lock lock(common_.mutex);
  if (!aborting.empty() && !voted_) throw SystemError(aborting);
  for (; !submitted.inbox_empty(); any = true) {
    if (!forming_) {
      if (flights_.size() == formed_) {
        flights_.push_back(std::make_unique<Flight>());
        flights_.back()->unit = exchange().make_unit();
      }
      flights_[formed_]->unit->slices.clear();
      forming_ = true;
    }
    const std::size_t bytes = submitted.take(flights_[formed_]->unit->slices);
    stats_.dense_bytes += bytes;
    forming_bytes_ += bytes;
    if (forming_bytes_ >= common_.setup.unit_bytes || submitted.all_there()) close_unit();
  }
  if (finishing && !last_closed_) {
    if (const auto names = submitted.lacking(nullptr); !names.empty())
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
void Attempt::close_unit() {
  const std::size_t bytes = std::exchange(forming_bytes_, 0);
  last_closed_ |= submitted.all_there();
  if (!std::exchange(forming_, false)) return;
  Flight& flight = *flights_[formed_];
  if (flight.unit->slices.empty()) return;
  std::ranges::sort(flight.unit->slices);
  flight.unit->reset();
  flight.state = State::closed;
  flight.leg = flight.results = 0;
  flight.times = {.bytes = bytes, .closed = since_begin_.time()};
  ++formed_;
}

void Attempt::measure_gradient() {
  const Places& places = submitted.gradient().places();
  double sum = 0;
  float buffer[kBlock];
  for (std::size_t t = 0; t < places.tensors(); ++t) {
    if (!submitted.gradient().has(t)) continue;
    const Slice all{.name = {}, .offset = places.begin(t), .count = places.count(t)};
    const Floats values = submitted.gradient().floats(all);
    for (std::size_t from = 0; from < all.count; from += kBlock) {
      const std::size_t count = std::min(kBlock, all.count - from);
      sum += kernels::sum_of_squares({values.load(from, count, buffer), count});
    }
  }
  norm_ = std::sqrt(sum);
  exchange().norm(*norm_);
}

// Asks after all that flies; what has arrived goes on with its next leg.
bool Attempt::fly() {
  bool any = false;
  for (std::size_t i = 0; i < formed_; ++i)
    if (flights_[i]->state == State::flying && test(flights_[i]->transfer)) {
      wire_.land(since_begin_.time());
      advance(i);
      any = true;
    }
  return any;
}

// Encodes and sends the next unit while few are under way, so that the link is never idle. Where
// asking blocks, one unit after the other makes all its legs, in the same order on all ranks.
bool Attempt::launch() {
  if (fenced_) return false;
  std::size_t flying = 0, next = formed_;
  for (std::size_t i = formed_; i-- > 0;) {
    flying += flights_[i]->state == State::flying;
    if (flights_[i]->state == State::closed) next = i;
  }
  if (next == formed_ || flying >= (common_.transport.blocks() ? 1 : kMostFlying)) return false;
  if (common_.setup.zeros_rest && !info_.plain)
    for (const std::size_t i : flights_[next]->unit->slices) submitted.look(plan_->layout[i]);
  Flight& flight = *flights_[next];
  keep_what_rests(flight.unit->slices);
  advance(next);
  flight.times.left = flight.state == State::flying ? since_begin_.time() : flight.times.arrived;
  return true;
}

// Memory commits whole tensors: a slice that rests may have tensors of which others are sent.
void Attempt::keep_what_rests(Slices slices) {
  Memory* const memory = exchange().memory();
  if (!memory || !exchange().lets_rest()) return;
  for (const std::size_t i : slices) {
    const Slice& slice = plan_->layout[i];
    if (submitted.gradient().rests(slice) && submitted.shares_tensors(slice)) memory->rest(slice);
  }
}

void Attempt::advance(std::size_t number) {
  Flight& flight = *flights_[number];
  for (;;) {
    const Move move = flight.unit->next(step_now(), flight.transfer);
    if (move == Move::none) {
      flight.state = State::arrived;
      flight.times.arrived = since_begin_.time();
      return;
    }
    const Tag tag{number_, static_cast<std::uint32_t>(number), flight.leg++};
    const std::uint64_t sent = common_.transport.bytes_sent();
    const double now = since_begin_.time();
    flight.transfer.operation = "average of gradients";
    flight.transfer.due = due();
    if (move == Move::reduce)
      start_reduce(tag, flight.unit->values(), flight.transfer);
    else if (flight.transfer.sends.empty() && flight.transfer.receives.empty())
      continue;
    else
      start(tag, flight.transfer);
    flight.state = State::flying;
    wire_.start(now, sent, tag.leg == 0);
    return;
  }
}

// Opens what has arrived; writes the means of one unit.
bool Attempt::land() {
  bool any = false;
  for (std::size_t i = 0; i < formed_; ++i)
    if (flights_[i]->state == State::arrived) {
      flights_[i]->unit->open(step_now());
      flights_[i]->state = State::opened;
      any = true;
    }
  if (exchange().framed() && last_closed_ && !voting_ && all_are(State::opened)) return any;
  for (std::size_t i = 0; i < formed_; ++i)
    if (flights_[i]->state == State::opened) {
      write(*flights_[i]);
      flights_[i]->state = State::written;
      flights_[i]->times.written = since_begin_.time();
      return true;
    }
  return any;
}

// At least so far.
bool Attempt::all_are(State state) const {
  return std::all_of(flights_.begin(), flights_.begin() + static_cast<std::ptrdiff_t>(formed_),
                     [&](const auto& flight) { return flight->state >= state; });
}

void Attempt::write(Flight& flight) {
  const Timed timed(stats_.decompress_seconds);
  for (std::size_t place = 0; place < flight.unit->slices.size(); ++place)
    write_slice(flight, place);
  {
    const std::lock_guard lock(common_.mutex);
    for (const std::size_t i : flight.unit->slices) submitted.written(plan_->layout[i]);
    if (common_.wait_for_parts == 0) return;
  }
  common_.changed.notify_all();
}

void Attempt::write_slice(Flight& flight, std::size_t place) {
  const std::size_t count = plan_->layout[flight.unit->slices[place]].count;
  const Floats out = submitted.gradient().floats(plan_->layout[flight.unit->slices[place]]);
  if (common_.scratch.pool.threads() == 1 || !exchange().parallel() || !exchange().framed()) {
    means_finite_ &= write_blocks(flight, place, out, 0, count);
    return;
  }
  std::atomic<bool> finite = true;
  constexpr std::size_t kRun = kBlocksAtOnce * kBlock;
  common_.scratch.pool.each((count + kRun - 1) / kRun, [&](std::size_t run, unsigned) {
    if (!write_blocks(flight, place, out, run * kRun, std::min(count, (run + 1) * kRun)))
      finite = false;
  });
  means_finite_ &= finite;
}

// Entries [from, to) of a slice's mean, each written once. Whether all are finite, in the host's
// own type.
bool Attempt::write_blocks(Flight& flight, std::size_t place, const Floats& out, std::size_t from,
                           std::size_t to) {
  const Slice& slice = plan_->layout[flight.unit->slices[place]];
  bool finite = true;
  // Where means are mostly zeros a block is made in the cache and written past it.
  const bool sparse = plan_->op(flight.unit->slices[place]).selects();
  float* const streamed = sparse && slice.count >= kernels::kStreamed ? out.array() : nullptr;
  float buffer[kBlock], again[kBlock];
  for (; from < to; from += kBlock) {
    const std::size_t count = std::min(kBlock, to - from);
    const std::span<float> block(streamed ? buffer : out.place(from, count, buffer), count);
    flight.unit->mean(step_now(), place, from, block);
    exchange().finish(slice, from, block);
    if (!exchange().framed()) flight.results = crc32c(bytes_of(block), flight.results);
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

void Attempt::write_rest() {
  take_turn();
  while (land()) {
  }
}

std::vector<UnitTimes> Attempt::unit_times() const {
  std::vector<UnitTimes> times;
  for (std::size_t i = 0; i < formed_; ++i) times.push_back(flights_[i]->times);
  return times;
}

void Attempt::commit() {
  take_turn();
  exchange().commit(submitted.tensors(exchange().lets_rest()));
  const std::lock_guard lock(common_.mutex);
  pending = false;
  outcome = Outcome::committed;
}

// What the step sends and how often it waits for others.
void Attempt::count(const TrafficMeter& meter) {
  StepStats some;
  meter.into(some);
  stats_.traffic_bytes += some.traffic_bytes;
  stats_.messages += some.messages;
  stats_.rounds += some.rounds;
}

void Attempt::start(const Tag& tag, Transfer& transfer) {
  const TrafficMeter meter(common_.transport);
  common_.transport.start(tag, transfer);
  count(meter);
}

void Attempt::start_reduce(const Tag& tag, std::span<float> values, Transfer& transfer) {
  const TrafficMeter meter(common_.transport);
  common_.transport.start_reduce(tag, values, transfer);
  count(meter);
}

bool Attempt::test(Transfer& transfer) {
  const TrafficMeter meter(common_.transport);
  const bool done = common_.transport.test(transfer);
  count(meter);
  return done;
}

}  // namespace laconic
