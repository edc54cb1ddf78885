// What a worker remembers between steps. A step is a transaction: nothing changes for good before
// commit, and rollback leaves everything as it was before the step.
#pragma once

#include <algorithm>
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
  // The model and the momentum of this rank's own optimiser, for memories that look at them: one
  // array over the whole model, or one per tensor (by_tensor), whose addresses stay until the step
  // ends.
  std::span<const float> parameters = {};
  std::span<float> momentum = {};
  std::span<const float* const> parameters_by_tensor = {};
  std::span<float* const> momentum_by_tensor = {};
  float scale = 1;          // what gradients are multiplied by; what is remembered is not
  std::uint32_t flags = 0;  // the host's; all ranks' together are in StepStats
  // On all ranks: floats go as they are, and with them all that is owed; nothing is owed after it.
  // Nothing rests in such a step. For all tensors only.
  bool plain = false;
  // Filled in by the aggregator: how many take part, the step's slices and operators, and what a
  // memory draws from: a key of this step and rank.
  std::size_t ranks = 1;
  Key draws = Key();
  const Plan* plan = nullptr;
  std::size_t slot = 0;  // no two steps that are open at the same time have the same
};

// What was sent of a slice.
struct Sent {
  const Operator& op;
  ByteView section;
  Keys keys;
  Scratch& scratch;
  Decoder& decoder;  // working memory

  // Calls use(from, values) for blocks of what every receiver decodes of `count` entries.
  template <class Use>
  void each_block(std::size_t count, Use use) const {
    op.open(section, count, keys, scratch, decoder);
    float values[kBlock];
    for (std::size_t from = 0; from < count; from += kBlock) {
      const std::span<float> block(values, std::min(kBlock, count - from));
      std::ranges::fill(block, 0.0F);
      decoder.add(from, from + block.size(), 1, block.data());
      use(from, std::span<const float>(block));
    }
  }
};

// State by name: one array per tensor and role, e.g. "feedback/conv1.weight". Survives a change of
// layout.
using State = std::map<std::string, std::vector<float>>;

// Tensors of a step, by index, ascending: those of which this rank has sent something (others
// rest), and those that all ranks have averaged.
struct Tensors {
  std::span<const std::size_t> sent, averaged;
};

// A step is begin; source and sent for every slice that is encoded; mean for every slice of the
// result; and commit. A step that is never committed leaves no trace, so there is nothing to undo.
// Steps over different tensors may be open at once.
class Memory {
 public:
  virtual ~Memory() = default;

  // Before the first slice. Throws UsageError when `info` lacks what this memory needs.
  virtual void begin(const StepInfo& /*info*/) {}
  // Where steps over different tensors are open: what follows, commit too, is about this one, which
  // has begun. The same as begin but for memories that gather something over a step: they keep it
  // by info.slot. norm is called again after it.
  virtual void turn(const StepInfo& info) { begin(info); }
  // Whether it must know the length of the whole gradient before the first slice, and that.
  virtual bool wants_norm() const { return false; }
  virtual void norm(double /*norm*/) {}

  // What to encode for this slice of the gradient, and where the next residual goes. Valid until
  // the next call.
  virtual Source source(const Slice& slice, const Floats& gradient) = 0;
  // After encoding: what the receivers will decode of it.
  virtual void sent(const Slice& /*slice*/, const Sent& /*sent*/) {}
  // Instead of both: of this slice nothing was sent, and all that is remembered of it stays, though
  // something of its tensors may be sent in others.
  virtual void rest(const Slice& slice) = 0;
  // Turns a block of the mean of what all ranks sent into one of the mean gradient.
  virtual void mean(const Slice& /*slice*/, std::size_t /*from*/, std::span<float> /*block*/) {}
  virtual bool reshapes() const { return false; }  // whether it does that

  // What the step has brought for these tensors becomes what is remembered of them.
  virtual void commit(const Tensors& tensors) = 0;

  // Length of what is still owed to the model; 0 when nothing is remembered. A pass over it.
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
  bool wants_unbiased = false;             // is wrong with an operator that is not
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

// Whether it clears the momentum of a rank's own optimiser where something was sent.
bool masks_momentum(std::string_view memory);

// Throws UsageError unless the step's learning rate can be divided by.
void require_lr(const std::string& memory, const StepInfo& info);

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
