// One try at a step, as the engine meets it: parts become units, units fly leg by leg, land, are
// opened and written; when all were, ranks vote. docs/pipeline.md is its story. An object makes one
// step after the other, so that steady state allocates nothing.
#pragma once

#include <condition_variable>
#include <mutex>

#include "laconic/exchange/guard.h"
#include "laconic/exchange/lanes.h"
#include "laconic/exchange/submitted.h"
#include "laconic/exchange/vote.h"
#include "laconic/exchange/wire_time.h"

namespace laconic {

class Attempt;

// What all steps of an aggregator share.
struct Common {
  Common(Setup given, std::unique_ptr<Exchange> made);

  Setup setup;
  std::unique_ptr<Exchange> exchange;
  Transport& transport;
  Scratch scratch;
  std::size_t me, ranks;
  Lanes* lanes = nullptr;  // the exchange, where it has some
  std::optional<Guard> guard;
  const Attempt* turn = nullptr;  // whose step the exchange has in mind

  mutable std::mutex mutex;  // of what callers and the engine tell each other
  // For those who wait for a part or a step; nobody is woken for what nobody waits for.
  mutable std::condition_variable changed;
  int wait_for_parts = 0;
};

// What became of the steps that a step's tensors were in before.
struct Before {
  Outcome outcome = Outcome::none;
  std::uint32_t mixed = 0;  // a hash, where not all have come to the same
};

class Attempt {
 public:
  using Clock = std::chrono::steady_clock;

  // What has become of the step.
  enum class Phase { none, open, ended, failed };

  Attempt(Common& common, std::size_t slot);

  // The engine's work: by one thread at a time, which holds no lock. Over these tensors, ascending,
  // or all of the model if none are named. When it throws, the attempt has ended on all ranks.
  void begin(const StepInfo& info, std::span<const std::size_t> tensors, const Before& before);
  // One round of everything there is to do. False: nothing could be done.
  bool pump();
  // The step has happened on no rank, for the exception that is being handled; or, when this rank
  // has voted and cannot know, it is in doubt.
  void fail();
  // What it waits for first; null: for callers alone.
  Transfer* awaited();
  // Waits for that, until then at most, and gives up on what takes too long.
  void rest(Transfer& first, Clock::time_point until);
  // Writes all means that are still to be written: a step in doubt has opened them all.
  void write_rest();
  void commit();

  // What callers may ask and say, with the mutex held.
  Phase phase = Phase::none;
  Outcome outcome = Outcome::none;
  bool pending = false;    // ended well, and neither committed nor rolled back
  bool finishing = false;  // the host will submit nothing any more
  bool finished = false;   // and knows how the step has ended
  std::string aborting;    // the host's reason
  std::exception_ptr failure;
  double exposed = 0;   // seconds that callers have waited
  Submitted submitted;  // its inbox; all else is the engine's
  bool has_work() const;
  bool has_new() const;  // of that what callers have brought and nobody has looked at
  bool is_done(std::size_t part) const;  // throws what ended the step
  bool under_way() const { return phase == Phase::open || (phase == Phase::ended && !finished); }

  // Of a step that has ended.
  StepStats& stats() { return stats_; }
  TensorStats tensor_stats(std::size_t tensor) const { return submitted.stats(tensor, sent_); }
  std::vector<UnitTimes> unit_times() const;
  std::uint64_t step() const { return info_.step; }
  std::uint64_t number() const { return number_; }
  std::size_t slot() const { return slot_; }

 private:
  // A unit on its way.
  struct Flight {
    enum class State { closed, flying, arrived, opened, written };
    std::unique_ptr<Unit> unit;
    Transfer transfer;
    State state = State::closed;
    std::uint32_t leg = 0;
    std::uint32_t results = 0;  // a hash of what was written, where no frame carried it
    UnitTimes times = {};
  };
  using State = Flight::State;

  // Units (attempt.cpp).
  void take_turn();
  bool take_parts();
  void close_unit();
  void measure_gradient();
  bool fly();
  bool launch();
  void keep_what_rests(Slices slices);
  void advance(std::size_t number);
  bool land();
  bool all_are(State state) const;
  void write(Flight& flight);
  void write_slice(Flight& flight, std::size_t place);
  bool write_blocks(Flight& flight, std::size_t place, const Floats& out, std::size_t from,
                    std::size_t to);
  void count(const TrafficMeter& meter);
  void start(const Tag& tag, Transfer& transfer);
  void start_reduce(const Tag& tag, std::span<float> values, Transfer& transfer);
  bool test(Transfer& transfer);
  Step step_now() {
    return {info_, *plan_, submitted.gradient(), common_.scratch, stats_, sent_, submitted.whole()};
  }
  Exchange& exchange() const { return *common_.exchange; }

  // How it ends (vote.cpp has the ballots; attempt_end.cpp this).
  void take_lane();
  bool vote();
  void send_vote();
  Ballot ballot() const;
  void count_votes();
  void send_probe(std::uint32_t bytes);
  bool land_probe();
  void end();
  bool waits_for_transport() const;
  Clock::time_point due() const;

  Common& common_;
  const std::size_t slot_;
  StepInfo info_;
  const Plan* plan_ = nullptr;
  StepStats stats_;
  Stopwatch since_begin_;
  std::vector<std::uint64_t> sent_;  // by slice: payload
  std::uint64_t number_ = 0;
  Before before_;
  std::vector<std::unique_ptr<Flight>> flights_;  // the first formed_ of them are in use
  std::size_t formed_ = 0;
  bool forming_ = false;           // flights_[formed_] gathers slices
  std::size_t forming_bytes_ = 0;  // of the parts taken since the last unit was closed
  bool last_closed_ = false;       // no unit will follow in this step
  bool fenced_ = false;            // nothing leaves before the whole gradient is there
  std::optional<double> norm_;     // of the gradient, where it was asked for
  bool means_finite_ = true;
  Transfer vote_;
  std::vector<std::array<std::uint8_t, kBallotBytes>> votes_;  // by rank
  std::vector<Ballot> ballots_;
  bool voting_ = false, voted_ = false;

  // What is measured for the guard (docs/guard.md).
  Measures measures_, measures_before_;  // of this step, and of the one before
  Clock::time_point begun_, probed_;
  std::uint64_t bytes_then_ = 0;  // that had been sent when the step began
  WireTime wire_;                 // of units
  std::uint64_t bytes_of_units_ = 0;
  Transfer probe_;
  std::vector<std::uint8_t> probe_out_, probe_in_;
  bool probing_ = false;
};

}  // namespace laconic
