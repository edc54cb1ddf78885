// The engine of an aggregator: the steps that are open, over different tensors, and who moves them.
// docs/pipeline.md is its story, attempt.h what becomes of one of them.
#pragma once

#include <atomic>
#include <thread>

#include "laconic/exchange/attempt.h"

namespace laconic {

class Driver {
 public:
  Driver(Setup setup, std::unique_ptr<Exchange> exchange);
  ~Driver();

  // The step of the whole model, one after the other.
  Attempt& whole() { return *attempts_[0]; }
  const Attempt& whole() const { return *attempts_[0]; }
  void begin_whole(const StepInfo& info);
  void submit_all(std::span<float> gradient);
  // A step over these tensors, until it is let go.
  Attempt& begin(const StepInfo& info, std::span<const std::size_t> tensors);
  void let_go(Attempt& attempt) noexcept;

  // As Aggregator's and Transaction's of these names.
  std::size_t submit(Attempt& attempt, const Part& part);
  bool poll(Attempt& attempt, std::size_t part);
  bool wait(Attempt& attempt, std::size_t part, double seconds);
  StepStats finish(Attempt& attempt);
  void commit(Attempt& attempt);
  void rollback(Attempt& attempt);
  void abort(Attempt& attempt, std::string_view why);
  Outcome outcome(const Attempt& attempt) const;
  TensorStats tensor_stats(const Attempt& attempt, std::size_t tensor) const;
  std::vector<UnitTimes> unit_times(const Attempt& attempt) const;

  Outcome settle(Transport& among);
  void take_over(const Driver& settled);
  std::vector<std::string> take_guard_record();
  const Model& model() const { return common_.setup.model; }
  double residual_norm() const;
  bool owes() const;
  State save() const;
  void load(const State& state);

 private:
  using Clock = Attempt::Clock;
  using Phase = Attempt::Phase;
  // For callers who change what the engine works on: nobody does its work meanwhile, also where
  // somebody is just waiting for the transport.
  class Pause {
   public:
    explicit Pause(const Driver& driver);
    ~Pause();

   private:
    const Driver& driver_;
    std::unique_lock<std::mutex> lock_;
  };

  // What became of the steps that a tensor was in.
  struct Past {
    Outcome outcome = Outcome::none;
    std::uint64_t committed = 0;  // 1 + the last attempt that was; 0: none
  };

  void start(Attempt& attempt, const StepInfo& info, std::span<const std::size_t> tensors);
  void require_tensors(std::span<const std::size_t> tensors) const;
  void require_free(const Attempt& attempt) const;
  void retire(Attempt& attempt);
  Before past() const;
  void make_commit(Attempt& attempt);
  void require_under_way(const Attempt& attempt, std::size_t part) const;
  void require_closed(const Attempt& attempt, bool or_pending = false) const;

  bool drive(const std::optional<Clock::time_point>& pause = {});
  void rest(Clock::time_point until);
  bool lies_down();
  void run();
  void tell_engine();
  void call_back() const;
  template <class Done>
  bool wait_until(Attempt& attempt, Done done, Clock::time_point until = Clock::time_point::max());

  Common common_;
  mutable std::mutex driving_;           // held by whoever does the engine's work
  mutable std::atomic<int> wanted_ = 0;  // callers for whom the engine's thread steps back
  // With the mutex held:
  mutable std::condition_variable work_;  // the engine's thread may have some
  mutable bool parked_ = false;           // it stays away from it for a caller's sake
  bool left_ = false;                     // there was more when it stepped back
  bool resting_ = false;                  // somebody waits for the transport, or is about to
  std::vector<std::unique_ptr<Attempt>> attempts_;  // by slot; changed with both mutexes held
  std::vector<bool> held_;                          // by slot: somebody has a handle of it
  std::vector<Attempt*> in_;                        // by tensor: the step it is in; null: none
  std::vector<Past> past_;                          // by tensor
  std::vector<std::size_t> over_;                   // tensors of the step to begin, ascending
  std::vector<std::size_t> all_tensors_;            // for submit_all
  std::vector<void*> all_data_;
  bool quitting_ = false;
  std::thread thread_;
};

}  // namespace laconic
