// What a worker remembers between steps. A step is a transaction: nothing changes for good before
// commit, and rollback leaves everything as it was before the step.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/layout/layout.h"
#include "laconic/memory/roles.h"

namespace laconic {

// What some methods need to know about the step.
struct StepInfo {
  std::uint64_t step = 0;
  float lr = 0;
  std::span<const float> parameters = {};
  std::span<float> momentum = {};  // of this rank's own optimiser, for memories that mask it
  std::size_t ranks = 1;           // filled in by the aggregator
};

// What was sent of a slice.
struct Sent {
  const Operator& op;
  ByteView section;
  Keys keys;
  Scratch& scratch;

  // y += weight * what every receiver decodes.
  void add_to(std::span<float> y, float weight) const { op.add(section, weight, y, keys, scratch); }

  // What every receiver decodes of a slice of `count` entries, in an array of the caller's.
  std::span<const float> decode(std::size_t count, std::vector<float>& into) const {
    into.assign(count, 0.0F);
    add_to(into, 1);
    return into;
  }
};

// State by name: one array per tensor and role, e.g. "feedback/conv1.weight". Survives a change of
// layout.
using State = std::map<std::string, std::vector<float>>;

// A step is begin; compensate and absorb, slice by slice; finish; and commit, or rollback at any
// point.
class Memory {
 public:
  virtual ~Memory() = default;

  // Once per step, before the first slice: the whole gradient of this rank. Throws UsageError when
  // `info` lacks what this memory needs.
  virtual void begin(std::span<const float> /*gradient*/, const StepInfo& /*info*/) {}
  // Before encoding: what to send for this slice of the gradient. The result stays valid until the
  // slice is absorbed or the next one compensated.
  virtual std::span<const float> compensate(const Slice& slice, std::span<const float> gradient,
                                            const StepInfo& info) = 0;
  // After encoding: what the receivers will decode of it.
  virtual void absorb(const Slice& slice, const Sent& sent) = 0;
  // After the mean of what all ranks sent is known: may turn it into the mean gradient.
  virtual void finish(std::span<float> /*mean*/, const StepInfo& /*info*/) {}

  virtual void commit() = 0;
  virtual void rollback() = 0;

  // Length of what is still owed to the model; 0 when nothing is remembered.
  virtual double residual_norm() const = 0;
  virtual State save() const = 0;
  // Throws DataError unless the state is one this memory saved for this model; nothing is changed
  // then.
  virtual void load(const State& state) = 0;
};

struct MemoryInfo {
  std::string name, summary, paper;
  std::vector<Parameter> parameters;
  std::vector<std::string> examples = {};  // specs that every test of all memories runs
  std::vector<StateRole> roles = {};       // all that may be in its state
  bool wants_contraction = false;          // diverges with an operator that is none
  bool carries_momentum = false;           // the optimiser behind it must have none
  std::function<std::unique_ptr<Memory>(const Model&, const Args&)> make;
};

const std::vector<MemoryInfo>& memories();

struct RegisterMemory {
  explicit RegisterMemory(MemoryInfo info);
};

// Example: make_memory("feedback", model, plan). Throws UsageError when the memory cannot go with
// an operator of the plan.
std::unique_ptr<Memory> make_memory(std::string_view spec, const Model& model, const Plan& plan);

// Why a memory cannot go with an operator of the plan, in one sentence; empty when it can.
std::string misfit(std::string_view memory, const Plan& plan);

// Throws that sentence as UsageError: a memory that stays while plans change must go with all.
void require_fit(std::string_view memory, const Plan& plan);

// Whether the optimiser behind a memory must have no momentum of its own.
bool carries_momentum(std::string_view memory);

// Throws UsageError unless the step's learning rate can be divided by.
void require_lr(const std::string& memory, const StepInfo& info);

// Momentum masking: sets momentum to 0 where something was sent, that is, where receivers decode
// anything but 0, and leaves it as it is elsewhere. For one slice, given what was sent of it or its
// decoded values.
void mask_momentum(std::span<float> momentum, const Sent& sent);
void mask_momentum(std::span<float> momentum, std::span<const float> decoded);

// Cuts an array over the whole model into one entry per tensor, "role/tensor", and back.
void save_tensors(const std::string& role, const Model& model, std::span<const float> values,
                  State& state);
std::vector<float> load_tensors(const std::string& role, const Model& model, const State& state);

// A state among others: its names go in behind a prefix, and come out without it.
void put_under(const std::string& prefix, const State& part, State& all);
State take_under(const std::string& prefix, const State& all);

// Throws DataError unless the state holds exactly these roles of every tensor, each of the tensor's
// count.
void expect_state(const State& state, const std::vector<std::string>& roles, const Model& model);

// A state as bytes: a frame of named sections. Reading throws DataError for anything else.
Buffer write_state(const State& state);
State read_state(ByteView bytes);

}  // namespace laconic
