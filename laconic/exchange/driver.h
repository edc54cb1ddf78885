// The engine of an aggregator: forms units of what is submitted, moves them leg by leg, writes the
// means and votes. docs/pipeline.md is its story.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "laconic/exchange/guard.h"
#include "laconic/exchange/lanes.h"
#include "laconic/exchange/submitted.h"
#include "laconic/exchange/vote.h"

namespace laconic {

class Aggregator::Driver {
 public:
  Driver(Setup setup, std::unique_ptr<Exchange> exchange);
  ~Driver();

  void begin(const StepInfo& info);
  std::size_t submit(const Part& part);
  void submit_all(std::span<float> gradient);
  bool poll(std::size_t part);
  bool wait(std::size_t part, double seconds);
  StepStats finish();
  void commit();
  void rollback();
  void abort(std::string_view why);
  Outcome settle(Transport& among);

  Outcome outcome() const;
  std::vector<std::string> take_guard_record();
  TensorStats tensor_stats(std::size_t tensor) const;
  const Model& model() const { return setup_.model; }
  Exchange& closed_exchange() const;  // throws UsageError while a step is open

 private:
  using Clock = std::chrono::steady_clock;

  // A unit on its way.
  struct Flight {
    enum class State { closed, flying, arrived, opened, written };
    std::unique_ptr<Unit> unit;
    Transfer transfer;
    State state = State::closed;
    std::uint32_t leg = 0;
    std::uint32_t results = 0;  // a hash of what was written, where no frame carried it
  };
  using State = Flight::State;

  // What has become of the step; guarded by mutex_.
  enum class Phase { none, open, ended, failed };

  // The engine's work (driver.cpp); one thread at a time does it.
  bool pump();
  bool take_parts();
  void close_unit();
  void measure_gradient();
  bool fly();
  bool launch();
  void advance(std::size_t number);
  bool land();
  bool all_are(State state) const;
  void write(Flight& flight);
  void write_slice(Flight& flight, std::size_t place);
  bool write_blocks(Flight& flight, std::size_t place, const Floats& out, std::size_t from,
                    std::size_t to);
  bool vote();
  void send_vote();
  Ballot ballot() const;
  void count_votes();
  void send_probe(std::uint32_t bytes);
  bool land_probe();
  void end();
  void fail();
  void rest(Clock::time_point until);
  bool waits_for_transport() const;
  Clock::time_point due() const;
  Step step() { return {info_, *plan_, submitted_.gradient(), scratch_, stats_, sent_}; }

  // Who does it (calls.cpp).
  bool drive(const std::optional<Clock::time_point>& pause = {});
  void run();
  void tell_engine();
  template <class Done>
  bool wait_until(Done done, Clock::time_point until = Clock::time_point::max());
  bool is_done(std::size_t part) const;
  void require_closed(bool or_pending = false) const;
  void take_lane();

  Setup setup_;
  std::unique_ptr<Exchange> exchange_;
  Transport& transport_;
  Scratch scratch_;

  // Of the step under way, the engine's.
  StepInfo info_;
  const Plan* plan_ = nullptr;
  StepStats stats_;
  std::vector<std::uint64_t> sent_;  // by slice: payload
  TrafficMeter meter_;
  std::uint64_t attempt_ = 0;
  std::vector<std::unique_ptr<Flight>> flights_;  // the first formed_ of them are in use
  std::size_t formed_ = 0;
  bool forming_ = false;           // flights_[formed_] gathers slices
  std::size_t forming_bytes_ = 0;  // of the parts taken since the last unit was closed
  bool last_closed_ = false;       // no unit will follow in this step
  bool fenced_ = false;            // nothing leaves before the whole gradient is there
  bool means_finite_ = true;
  Transfer vote_;
  std::vector<std::array<std::uint8_t, kBallotBytes>> votes_;  // by rank
  std::vector<Ballot> ballots_;
  std::size_t me_;
  bool voting_ = false, voted_ = false;
  Outcome outcome_ = Outcome::none;
  std::uint64_t committed_ = 0;  // 1 + the last step that was; 0: none
  bool pending_ = false;         // ended well, and neither committed nor rolled back

  // The guard and what is measured for it (docs/guard.md).
  Lanes* lanes_ = nullptr;  // the exchange, where it has some
  std::optional<Guard> guard_;
  Measures measures_, measures_before_;  // of this step, and of the one before
  Clock::time_point begun_, under_way_since_, probed_;
  std::uint64_t bytes_then_ = 0;  // that had been sent when the step began
  std::size_t under_way_ = 0;     // transfers of units
  Transfer probe_;
  std::vector<std::uint8_t> probe_out_, probe_in_;
  bool probing_ = false;

  // Between the callers and the engine.
  std::mutex driving_;  // held by whoever does the engine's work
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // for callers: something was done; for the engine: work
  Submitted submitted_;              // its inbox is guarded by mutex_
  Phase phase_ = Phase::none;
  bool finishing_ = false, finished_ = false, quitting_ = false;
  std::string aborting_;  // the host's reason
  std::exception_ptr failure_;
  double exposed_ = 0;                    // seconds that callers have waited
  std::vector<std::size_t> all_tensors_;  // for submit_all
  std::vector<void*> all_data_;
  std::thread thread_;
};

}  // namespace laconic
