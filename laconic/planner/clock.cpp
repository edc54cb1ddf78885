// The driver's rounds without its work.
#include "laconic/planner/clock.h"

#include <algorithm>
#include <limits>

#include "laconic/exchange/transport.h"
#include "laconic/exchange/vote.h"

namespace laconic {
namespace {

constexpr std::size_t kMostFlying = 4;  // as the driver's
constexpr double kNever = std::numeric_limits<double>::infinity();

class Clock {
 public:
  Clock(std::span<const TimedUnit> units, const Link& link, const Rates& rates, int ranks,
        bool framed, const Shares& shares)
      : link_(link), rates_(rates), shares_(shares), framed_(framed) {
    const auto others = static_cast<std::uint64_t>(ranks) - 1;
    const auto bytes = static_cast<double>(others * vote_bytes());
    vote_ = {.messages = others, .out = bytes, .in = bytes, .most_out = bytes, .most_in = bytes};
    for (const TimedUnit& unit : units) {
      flights_.push_back({&unit});
      computed_ = std::max(computed_, unit.ready);
    }
    backward_ = computed_;
  }

  StepTimes run() {
    while (!over()) {
      bool any = fly();
      if (launch()) continue;
      any |= land();
      any |= vote();
      if (!any) now_ = next_event();
    }
    now_ = std::max(now_, vote_done_);
    end(vote_);
    return {now_, busy_, std::max(out_taken_, in_taken_)};
  }

 private:
  enum class State { closed, flying, arrived, written };
  struct Flight {
    const TimedUnit* unit;
    State state = State::closed;
    std::size_t leg = 0;
    double done = 0;
  };

  bool all_are(State state) const {
    return std::ranges::all_of(flights_, [&](const Flight& f) { return f.state >= state; });
  }
  bool over() const { return voting_ && all_are(State::written); }

  void work(double seconds) {
    busy_ += seconds;
    take(seconds);
  }

  // One of the two ends of messages.
  void pass(std::uint64_t messages, double bytes) {
    take((static_cast<double>(messages) * shares_.stack.message + bytes * shares_.stack.byte) / 2);
  }

  // Beside the backward pass, which becomes later by what both want of the same core, or alone.
  void take(double seconds) {
    const double slowed = shares_.two / shares_.one;
    const double left = std::max(0.0, backward_ - now_);
    const double beside = std::min(seconds / shares_.two, left / slowed);
    const double delay = (1 - slowed) * beside;
    now_ += beside + (seconds - beside * shares_.two) / shares_.one;
    backward_ += delay;
    late_ += delay;
  }
  // Of the worker that comes last: with fewer cores than workers it computes when others have.
  double ready(const Flight& flight) const {
    return computed_ - (computed_ - flight.unit->ready) * shares_.one + late_;
  }

  // What messages of these bytes take of the link's two directions, and when all are there.
  double start(const ForeseenLeg& leg) {
    pass(leg.messages, leg.out);
    const double second = 8 / link_.bits_per_second, latency = link_.latency_seconds;
    const double left = std::max(now_, out_free_), came = std::max(left + latency, in_free_);
    out_free_ = left + leg.out * second;
    in_free_ = came + leg.in * second;
    out_taken_ += leg.out * second;
    in_taken_ += leg.in * second;
    return std::max({out_free_ + latency, in_free_, left + leg.most_out * second + latency,
                     came + leg.most_in * second});
  }

  void end(const ForeseenLeg& leg) { pass(leg.messages, leg.in); }

  void advance(Flight& flight) {
    const ForeseenUnit& unit = flight.unit->unit;
    if (flight.leg > 0) end(unit.legs[flight.leg - 1]);
    if (flight.leg == unit.legs.size()) {
      flight.state = State::arrived;
      return;
    }
    const ForeseenLeg& leg = unit.legs[flight.leg++];
    work(leg.encoded * rates_.encode + leg.added * rates_.add + leg.summed * rates_.sum);
    flight.done = start(leg);
    flight.state = State::flying;
  }

  bool fly() {
    bool any = false;
    for (Flight& flight : flights_)
      if (flight.state == State::flying && flight.done <= now_) {
        advance(flight);
        any = true;
      }
    return any;
  }

  bool launch() {
    std::size_t flying = 0;
    Flight* next = nullptr;
    for (Flight& flight : flights_) {
      flying += flight.state == State::flying;
      if (!next && flight.state == State::closed) next = &flight;
    }
    if (!next || ready(*next) > now_ || flying >= kMostFlying) return false;
    advance(*next);
    return true;
  }

  bool land() {
    if (framed_ && !voting_ && all_are(State::arrived)) return false;  // the vote leaves first
    for (Flight& flight : flights_)
      if (flight.state == State::arrived) {
        const ForeseenUnit& unit = flight.unit->unit;
        work(unit.added * rates_.add + flight.unit->entries * rates_.write +
             unit.summed * rates_.sum);
        flight.state = State::written;
        return true;
      }
    return false;
  }

  bool vote() {
    if (voting_ || !all_are(framed_ ? State::arrived : State::written)) return false;
    voting_ = true;
    vote_done_ = now_;
    if (vote_.messages > 0) vote_done_ = start(vote_);
    return true;
  }

  double next_event() const {
    double next = kNever;
    for (const Flight& flight : flights_) {
      if (flight.state == State::flying) next = std::min(next, flight.done);
      if (flight.state == State::closed && ready(flight) > now_)
        next = std::min(next, ready(flight));
    }
    return next;
  }

  Link link_;
  Rates rates_;
  Shares shares_;
  ForeseenLeg vote_;
  bool framed_, voting_ = false;
  std::vector<Flight> flights_;
  double now_ = 0, busy_ = 0, out_free_ = 0, in_free_ = 0, out_taken_ = 0, in_taken_ = 0;
  double vote_done_ = 0;
  // When the backward pass ends while nothing disturbs it, when it does, and how much is delay.
  double computed_ = 0, backward_ = 0, late_ = 0;
};

}  // namespace

StepTimes time_step(std::span<const TimedUnit> units, const Link& link, const Rates& rates,
                    int ranks, bool framed, const Shares& shares) {
  return Clock(units, link, rates, ranks, framed, shares).run();
}

Shares shares_of(int workers, unsigned cores) {
  if (cores == 0) return {};
  const double each = static_cast<double>(cores) / workers;
  return {std::min(1.0, each), std::min(1.0, each / 2)};
}

std::uint64_t vote_bytes() { return kBallotBytes + kMessageHead; }

}  // namespace laconic
