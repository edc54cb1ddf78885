// How means are made: an exchange says what its legs are, and an attempt (attempt.h) moves them.
#pragma once

#include <memory>

#include "laconic/codecs/crc32c.h"
#include "laconic/exchange/aggregator.h"
#include "laconic/exchange/frames.h"
#include "laconic/exchange/gradient.h"

namespace laconic {

// The step under way, as far as an exchange needs to know it.
struct Step {
  const StepInfo& info;
  const Plan& plan;          // of this step, as Exchange::plan_at gave it
  const Gradient& gradient;  // the slices of a unit are all there
  Scratch& scratch;
  StepStats& stats;
  std::span<std::uint64_t> sent;  // by slice of the plan: the payload of what this rank sent of it
  bool whole = true;  // of all tensors; else others may be open, which others begin in other orders
};

// What the next leg of a unit is.
enum class Move {
  none,      // there is none any more: all has arrived
  messages,  // a transfer of messages
  reduce,    // an all-reduce that the transport has of its own
};

// Slices that travel together. Used again from step to step, so that steady state allocates
// nothing.
class Unit {
 public:
  virtual ~Unit() = default;

  std::vector<std::size_t> slices;  // indices in the step's plan, ascending

  // Whatever an earlier step left is forgotten.
  virtual void reset() = 0;
  // Fills in the transfer of the next leg. What the one before was to bring has arrived. Throws
  // DataError for what arrived if it is not what it should be.
  virtual Move next(const Step& step, Transfer& transfer) = 0;
  // What Move::reduce is about.
  virtual std::span<float> values() { return {}; }
  // After the last leg: checks all that is left to check. From here on nothing can fail.
  virtual void open(const Step& step) = 0;
  // Writes the mean of what all ranks sent of slices[place], entries `from` and after it.
  virtual void mean(const Step& step, std::size_t place, std::size_t from,
                    std::span<float> block) = 0;
  // A hash of all that the mean is made of, equal on all ranks; 0 where no checksum did.
  virtual std::uint32_t inputs() const { return 0; }
};

// Adds slices of a unit to a frame: what memory wants sent of the gradient, or nothing of those
// that rest.
void add_slices(FrameOut& frame, const Step& step, Slices slices, Memory& memory);

// A hash of more than one checksum; their order matters.
inline std::uint32_t hash_of(std::uint32_t before, std::uint32_t next) {
  std::uint8_t bytes[sizeof next];
  store(bytes, next);
  return crc32c(bytes, before);
}

// By which operators a step goes, and what moves it.
class Route {
 public:
  virtual ~Route() = default;

  virtual const Plan& plan_at(std::uint64_t step) const = 0;
  virtual std::unique_ptr<Unit> make_unit() = 0;
};

class Exchange : public Route {
 public:
  // Whether all that means are made of travels with checksums, in frames or with sums: they then
  // prove that ranks got the same, and the vote need not wait for the means.
  virtual bool framed() const { return true; }

  // Before the first unit of a step. `info.ranks` is right.
  virtual void begin(const StepInfo& info) = 0;
  // What follows is about this step, one of several that have begun.
  virtual void turn(const StepInfo& info) = 0;
  // Whether it must know the length of the whole gradient before the first unit, and that.
  virtual bool wants_norm() const { return false; }
  virtual void norm(double /*norm*/) {}
  // Turns a block of the mean of what all ranks sent into one of the mean gradient.
  virtual void finish(const Slice& /*slice*/, std::size_t /*from*/, std::span<float> /*block*/) {}
  // Whether means of different blocks may be made by different threads.
  virtual bool parallel() const { return true; }
  // Whether commit leaves out a tensor that rests on this rank; else the exchange itself carries
  // over what is remembered of it.
  virtual bool lets_rest() const { return true; }
  virtual void commit(const Tensors& tensors) = 0;

  // For lanes (lanes.h): what is remembered of what this rank sends, null where it cannot be had;
  // what is remembered of the sums this rank sends back, null where it owns none of the slice;
  // whether a step may as well go in 16 bits; and the same exchange with the plans of another setup
  // over what this one remembers, which outlives it, null where operators are not what it is about.
  virtual Memory* memory() { return nullptr; }
  virtual Memory* owed(const Slice* /*slice*/ = nullptr) { return nullptr; }
  virtual bool takes_half() const { return false; }
  virtual std::unique_ptr<Route> beside(const Setup& /*setup*/) { return nullptr; }
  // How many times what it has encoded a rank sends, the busiest one.
  virtual double copies() const { return 1; }

  virtual double residual_norm() const = 0;
  virtual State save() const = 0;
  virtual void load(const State& state) = 0;
};

// An exchange with one memory, of what this rank sends.
class WithMemory : public Exchange {
 public:
  WithMemory(const Setup& setup, const Plan& plan)
      : memory_(make_memory(setup.memory, setup.model, plan)) {
    for (const Phase& phase : setup.warmup) require_fit(setup.memory, phase.plan);
  }

  void begin(const StepInfo& info) override { memory_->begin(info); }
  void turn(const StepInfo& info) override { memory_->turn(info); }
  bool wants_norm() const override { return memory_->wants_norm(); }
  void norm(double norm) override { memory_->norm(norm); }
  void finish(const Slice& slice, std::size_t from, std::span<float> block) override {
    memory_->mean(slice, from, block);
  }
  bool parallel() const override { return !memory_->reshapes(); }
  void commit(const Tensors& tensors) override { memory_->commit(tensors); }
  Memory* memory() override { return memory_.get(); }
  double residual_norm() const override { return memory_->residual_norm(); }
  State save() const override { return memory_->save(); }
  void load(const State& state) override { memory_->load(state); }

 protected:
  std::unique_ptr<Memory> memory_;
};

// An exchange around another, which does all that is not overridden.
class Around : public Exchange {
 public:
  explicit Around(std::unique_ptr<Exchange> inner) : inner_(std::move(inner)) {}

  const Plan& plan_at(std::uint64_t step) const override { return inner_->plan_at(step); }
  std::unique_ptr<Unit> make_unit() override { return inner_->make_unit(); }
  bool framed() const override { return inner_->framed(); }
  void begin(const StepInfo& info) override { inner_->begin(info); }
  void turn(const StepInfo& info) override { inner_->turn(info); }
  bool wants_norm() const override { return inner_->wants_norm(); }
  void norm(double norm) override { inner_->norm(norm); }
  void finish(const Slice& slice, std::size_t from, std::span<float> block) override {
    inner_->finish(slice, from, block);
  }
  bool parallel() const override { return inner_->parallel(); }
  bool lets_rest() const override { return inner_->lets_rest(); }
  void commit(const Tensors& tensors) override { inner_->commit(tensors); }
  Memory* memory() override { return inner_->memory(); }
  Memory* owed(const Slice* slice = nullptr) override { return inner_->owed(slice); }
  bool takes_half() const override { return inner_->takes_half(); }
  std::unique_ptr<Route> beside(const Setup& setup) override { return inner_->beside(setup); }
  double copies() const override { return inner_->copies(); }
  double residual_norm() const override { return inner_->residual_norm(); }
  State save() const override { return inner_->save(); }
  void load(const State& state) override { inner_->load(state); }

 protected:
  std::unique_ptr<Exchange> inner_;
};

}  // namespace laconic
