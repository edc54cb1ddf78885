// Who talks to whom: an aggregator turns every rank's gradient into their mean, equal bit for bit
// on every rank, part by part while the rest is still being computed. docs/pipeline.md tells how.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/exchange/stats.h"
#include "laconic/exchange/transport.h"
#include "laconic/layout/layout.h"
#include "laconic/memory/memory.h"

namespace laconic {

// Some tensors whose gradients are final, wherever they lie. The arrays are the aggregator's from
// submit until the step ends, and the means will stand there.
struct Part {
  std::span<const std::size_t> tensors;  // indices in the model
  std::span<void* const> data;           // one array each
  Dtype dtype = Dtype::float32;          // float32, bfloat16 or float16
  std::span<const bool> rests = {};  // by tensor: its gradient is all zeros and it keeps its memory
};

// What became of the last step.
enum class Outcome : std::uint8_t { none, committed, rolled_back, in_doubt };

class Exchange;
class Driver;
class Attempt;
struct Setup;

// A step over some of the model's tensors; others, over other tensors, may be open at the same
// time, each of which has its own vote and is committed or rolled back on its own, in any order.
// All is as with Aggregator's functions of the same names, for these tensors alone: as soon as the
// last of them is submitted, units leave and ranks vote, whoever else is under way. Example:
//
//   Transaction round = aggregator->begin({.step = 7}, {{2, 3}});
//   round.submit({.tensors = ..., .data = ...});
//   ... // steps over other tensors
//   if (round.finish().finite) round.commit();
//
// Outlived by its aggregator. Letting go of it aborts a step under way on all ranks; one that ended
// well and of which nothing was said is committed.
class Transaction {
 public:
  Transaction(Driver& driver, Attempt& attempt);  // for Aggregator
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&& other) noexcept;
  ~Transaction();

  std::size_t submit(const Part& part);
  bool poll(std::size_t part);
  bool wait(std::size_t part, double seconds = 0);
  StepStats finish();
  void commit();
  void rollback();
  void abort(std::string_view why);
  Outcome outcome() const;
  TensorStats tensor_stats(std::size_t tensor) const;
  std::vector<UnitTimes> unit_times() const;

 private:
  Driver* driver_;
  Attempt* attempt_;  // null: it was moved elsewhere
};

class Aggregator {
 public:
  Aggregator(Setup setup, std::unique_ptr<Exchange> exchange);
  ~Aggregator();

  // Starts a step, which all ranks do with the same `info.step`. A step before it that ended well
  // and of which nothing was said is committed.
  void begin(const StepInfo& info);

  // Starts a step over these tensors alone, which all ranks do in the same order. UsageError: one
  // of them is in a step that is open, or a slice has others too (layout `whole` has one slice),
  // there is a guard, or the transport blocks and any other step is open. Steps of the whole model
  // are such steps over all tensors: between begin and finish no other can be open.
  Transaction begin(const StepInfo& info, std::span<const std::size_t> tensors);

  // Hands over a part and returns its number, counted from 0; all ranks submit the same tensors in
  // the same order. Returns at once. From any thread.
  std::size_t submit(const Part& part);

  // Whether the part's means stand in its arrays. They are provisional until finish has returned:
  // no optimiser may use them. The part that completes the model is done only after the vote.
  // Throws what ended the step. From any thread.
  bool poll(std::size_t part);
  // Until then, or for so many seconds (0 and below: no limit); whether it is done. A transport
  // that blocks may hold up whoever does the engine's work for longer. Throws UsageError when it
  // would wait for tensors not yet submitted: those that slices of it lack, those of parts that it
  // travels with, below unit_bytes, or all where the memory asks for the gradient's norm.
  bool wait(std::size_t part, double seconds = 0);

  // Ends the step on all ranks or on none. Tensors that were not submitted rest, if on all ranks.
  // When some rank's gradient holds NaN or Inf, so does the mean, on every rank, stats.finite is
  // false and the step is rolled back. When it throws, memory is as before, on every rank, and the
  // arrays are undefined; the next begin tries again.
  StepStats finish();

  // After finish, before the next begin; only the last step can be undone.
  void commit();
  void rollback();

  // Ends the step under way on all ranks, with this reason.
  void abort(std::string_view why);

  Outcome outcome() const;

  // After a rank was lost, before the others go on without it: all of them call it over a transport
  // that connects just them, with no step open. A step that some of them are in doubt about, also
  // one over some tensors, is committed by all who are, if anybody has committed it, else by
  // nobody. Returns what this rank's last step of the whole model has become.
  Outcome settle(Transport& among);

  // And then this one, which is new and was made over the transport that connects just them, in the
  // order of their ranks, goes on with what `settled` has remembered: each keeps its own debts, and
  // what the others need of it is told (memory/redistribute.h). All of them call it. The
  // lost rank's debts are lost. When it throws, nothing was taken over, and it may be tried again
  // among fewer.
  void take_over(const Aggregator& settled);

  // Lines of the guard's record since it was last asked for, after finish; the same on all ranks.
  std::vector<std::string> take_guard_record();

  // Of the last step that has ended.
  TensorStats tensor_stats(std::size_t tensor) const;
  // And its units, in the order in which they were formed.
  std::vector<UnitTimes> unit_times() const;

  // In: this rank's gradient; out: the mean over ranks. begin, one part, finish and commit.
  StepStats average(std::span<float> gradient, const StepInfo& info);

  // Length of what is still owed to the model: a pass over it.
  double residual_norm() const;
  // Whether a step with StepInfo::plain and a gradient of zeros has something to deliver, the same
  // on all ranks: not where nothing is remembered, and not where estimates of gradients are.
  bool owes() const;
  // Throws UsageError while a step of the whole model is open. What is not committed is not in it:
  // of steps over some tensors that are open, the host saves what it has submitted, and submits it
  // again, with the same step number, after load.
  State save() const;
  // Throws UsageError while any step is open.
  void load(const State& state);

 private:
  std::unique_ptr<Driver> driver_;
};

// The plan of all steps before `until`: a warm-up sends more than what comes after it.
struct Phase {
  std::uint64_t until = 0;
  Plan plan;
};

// Who moves the parts: a thread of the aggregator's own, or whoever calls submit, poll and finish.
enum class Engine { thread, callers };

// Whether a step may go by another lane than the recipe's when that makes it shorter:
// docs/guard.md.
struct GuardOptions {
  enum class Mode { off, on, report, replay };
  Mode mode = Mode::off;
  std::string file = {};  // with replay: the record of another run

  // "on", "off", "report" or "replay=FILE". Throws UsageError for anything else.
  static GuardOptions parse(std::string_view text);
  // Where nobody has said anything: on among processes, off among threads.
  static GuardOptions usual(const Transport& transport) {
    return {.mode = transport.joins_processes() ? Mode::on : Mode::off};
  }
};

// What an aggregator is made from. Model, plans, seed, strata, memory, unit_bytes and the guard
// must be the same on all ranks.
struct Setup {
  Transport& transport;
  Model model;
  Plan plan;
  std::vector<Phase> warmup = {};  // what comes before `plan`, in rising order
  std::string memory = "none";
  // For exchanges with a way back of its own: what compresses the sum (the same plan if missing),
  // and the memory beside it.
  std::optional<Plan> down = {};
  std::string down_memory = "none";
  std::uint64_t seed = 0;
  // Rounding draws from strata among ranks (base/key.h), so that their errors cancel in the mean.
  bool strata = true;
  double timeout_seconds = 60;
  unsigned threads = 1;
  Engine engine = Engine::callers;
  std::size_t unit_bytes = std::size_t{1} << 20;  // of gradient: smaller parts travel together
  // A tensor whose gradient is all zeros rests. For hosts that pass over the mean of what no rank
  // has used; where every mean is taken, zeros are as good a gradient as others.
  bool zeros_rest = true;
  GuardOptions guard = {};

  const Plan& plan_at(std::uint64_t step) const {
    for (const Phase& phase : warmup)
      if (step < phase.until) return phase.plan;
    return plan;
  }
};

struct ExchangeInfo {
  std::string name, summary, paper;
  std::vector<Parameter> parameters;
  bool follows_warmup = false;        // asks Setup::plan_at in every step
  bool has_way_back = false;          // asks Setup::down and down_memory
  bool own_form = false;              // sends no frames: operators and memory must be left out
  bool follows_ranks = false;         // asks Slice::rank
  std::vector<StateRole> roles = {};  // what it remembers itself, beside its memory
  std::function<std::unique_ptr<Exchange>(const Setup&, const Args&)> make;
};

const std::vector<ExchangeInfo>& exchanges();

struct RegisterExchange {
  explicit RegisterExchange(ExchangeInfo info);
};

// Example: make_aggregator("gather", {.transport = t, .model = m, .plan = p, .memory =
// "feedback"}).
std::unique_ptr<Aggregator> make_aggregator(std::string_view spec, Setup setup);

// Throws UsageError unless the gradient has the model's count.
void require_count(std::span<const float> gradient, const Model& model);

// Throws UsageError unless operators and memory are left to the exchange itself.
void require_identity(const Setup& setup, const std::string& exchange);

// Notes what a transport sends between its making and `into`.
class TrafficMeter {
 public:
  explicit TrafficMeter(const Transport& transport)
      : transport_(&transport),
        bytes_(transport.bytes_sent()),
        messages_(transport.messages_sent()),
        rounds_(transport.rounds()) {}
  void into(StepStats& stats) const {
    stats.traffic_bytes = transport_->bytes_sent() - bytes_;
    stats.messages = transport_->messages_sent() - messages_;
    stats.rounds = transport_->rounds() - rounds_;
  }

 private:
  const Transport* transport_;
  std::uint64_t bytes_, messages_, rounds_;
};

}  // namespace laconic
