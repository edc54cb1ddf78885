// Who talks to whom: an aggregator turns every rank's gradient into their mean, equal bit for bit
// on every rank.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "laconic/exchange/transport.h"
#include "laconic/layout/layout.h"
#include "laconic/memory/memory.h"

namespace laconic {

// What one step cost. Bytes are those that really crossed the transport.
struct StepStats {
  std::uint64_t payload_bytes = 0;  // of this rank's frame, without headers
  std::uint64_t wire_bytes = 0;     // of this rank's frame
  std::uint64_t traffic_bytes = 0;  // all this rank sent
  std::uint64_t rounds = 0;         // how often it waited for others
  std::uint64_t dense_bytes = 0;    // the gradient as float32
  // Frames on their way to the mean, this rank's own, and frames that brought this rank the mean
  // when it comes back compressed; who sent them does not matter, so a link's two directions show.
  std::uint64_t up_bytes = 0, down_bytes = 0;
  double compress_seconds = 0, exchange_seconds = 0, decompress_seconds = 0;
  double update_seconds = 0;  // of optimisers, where the step has some
  double residual_norm = 0;
  bool finite = true;  // false: some rank's gradient held NaN or Inf, and the step was rolled back
};

class Aggregator {
 public:
  virtual ~Aggregator() = default;

  // In: this rank's gradient; out: the mean over ranks. When some rank's gradient holds NaN or Inf,
  // so does the mean, on every rank, stats.finite is false and the memory is as before. When it
  // throws, memory and gradient are as before.
  virtual StepStats average(std::span<float> gradient, const StepInfo& info) = 0;

  virtual State save() const = 0;
  virtual void load(const State& state) = 0;
};

// The plan of all steps before `until`: a warm-up sends more than what comes after it.
struct Phase {
  std::uint64_t until = 0;
  Plan plan;
};

// What an aggregator is made from. Model, plans, seed and memory must be the same on all ranks.
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
  double timeout_seconds = 60;
  unsigned threads = 1;

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
  std::vector<StateRole> roles = {};  // what it remembers itself, beside its memory
  std::function<std::unique_ptr<Aggregator>(Setup, const Args&)> make;
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
      : transport_(transport), bytes_(transport.bytes_sent()), rounds_(transport.rounds()) {}
  void into(StepStats& stats) const {
    stats.traffic_bytes = transport_.bytes_sent() - bytes_;
    stats.rounds = transport_.rounds() - rounds_;
  }

 private:
  const Transport& transport_;
  std::uint64_t bytes_, rounds_;
};

// Seconds since it was made or last asked.
class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Undoes a step that does not reach commit.
class Transaction {
 public:
  explicit Transaction(Memory& memory) : memory_(&memory) {}
  ~Transaction() {
    if (memory_) memory_->rollback();
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit() { std::exchange(memory_, nullptr)->commit(); }

 private:
  Memory* memory_;
};

}  // namespace laconic
