// The table of memories, and state by tensor name.
#include "laconic/memory/memory.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "laconic/base/registry.h"
#include "laconic/frame/frame.h"

namespace laconic {
namespace {

Registry<MemoryInfo>& registry() {
  static Registry<MemoryInfo> memories("memory");
  return memories;
}

std::string text_of(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value, std::chars_format::general, 6).ptr};
}

bool contracts(const Operator& op, std::size_t count) {
  const Traits traits = op.traits(count);
  return count == 0 || (traits.delta && *traits.delta > 0);
}

// What to do instead. Whether a chain can be shrunk only the chain itself knows.
std::string remedy_for(const Operator& op, std::size_t count) {
  const std::string shrunk = "shrink+" + op.spec();
  try {
    if (contracts(parse_operator(shrunk), count))
      return "use '" + shrunk + "', which scales it by 1/(1+omega)";
  } catch (const UsageError&) {  // it cannot
  }
  return "allowed: operators with a delta above 0 (see list)";
}

std::string divergence(const std::string& memory, const Slice& slice, const Operator& op) {
  const auto omega = op.traits(slice.count).omega;
  return "memory '" + memory + "' diverges with '" + op.spec() + "' on slice '" + slice.name +
         "', which is no contraction" + (omega ? " (omega " + text_of(*omega) + ")" : "") + "; " +
         remedy_for(op, slice.count);
}

std::string bias(const std::string& memory, const Slice& slice, const Operator& op) {
  return "memory '" + memory + "' needs an operator that is unbiased, which '" + op.spec() +
         "' is not on slice '" + slice.name +
         "'; allowed: operators with an omega (see list), or memory feedback or ef21";
}

bool is_unbiased(const Operator& op, std::size_t count) {
  const Traits traits = op.traits(count);
  return count == 0 || (traits.unbiased && traits.omega);
}

// The one stage a memory's spec consists of.
StageText stage_of(std::string_view spec) {
  const auto stages = split_chain(spec);
  if (stages.size() != 1) throw UsageError("a memory is one word, not '" + std::string(spec) + "'");
  return stages[0];
}

}  // namespace

const std::vector<MemoryInfo>& memories() { return registry().all(); }

RegisterMemory::RegisterMemory(MemoryInfo info) {
  RegisterRoles{info.roles};
  registry().add(std::move(info));
}

std::string misfit(std::string_view memory, const Plan& plan) {
  const MemoryInfo& info = registry().at(stage_of(memory).name);
  for (std::size_t i = 0; i < plan.layout.size(); ++i) {
    const Slice& slice = plan.layout[i];
    if (info.wants_contraction && !contracts(plan.op(i), slice.count))
      return divergence(info.name, slice, plan.op(i));
    if (info.wants_unbiased && !is_unbiased(plan.op(i), slice.count))
      return bias(info.name, slice, plan.op(i));
  }
  return {};
}

void require_fit(std::string_view memory, const Plan& plan) {
  if (const std::string why = misfit(memory, plan); !why.empty()) throw UsageError(why);
}

std::unique_ptr<Memory> make_memory(std::string_view spec, const Model& model, const Plan& plan) {
  const StageText stage = stage_of(spec);
  const MemoryInfo& info = registry().at(stage.name);
  const Args args(info.name, info.parameters, stage.args);
  require_fit(spec, plan);
  return info.make(model, args);
}

bool carries_momentum(std::string_view memory) {
  return registry().at(stage_of(memory).name).carries_momentum;
}

bool masks_momentum(std::string_view memory) {
  const StageText stage = stage_of(memory);
  const MemoryInfo& info = registry().at(stage.name);
  const auto at = std::ranges::find(info.parameters, "masking", &Parameter::name);
  if (info.carries_momentum || at == info.parameters.end()) return false;  // dgc masks its own
  return Args(info.name, info.parameters, stage.args).text("masking") == "on";
}

void require_lr(const std::string& memory, const StepInfo& info) {
  if (info.lr > 0 && std::isfinite(info.lr)) return;
  throw UsageError("memory '" + memory + "' divides by the learning rate, which is " +
                   text_of(info.lr) + " in step " + std::to_string(info.step) +
                   "; allowed: above 0");
}

void save_tensors(const std::string& role, const Model& model, std::span<const float> values,
                  State& state) {
  for (const Tensor& tensor : model) {
    const auto part = values.first(tensor.count());
    state[role + "/" + tensor.name].assign(part.begin(), part.end());
    values = values.subspan(part.size());
  }
}

std::vector<float> load_tensors(const std::string& role, const Model& model, const State& state) {
  std::vector<float> values;
  values.reserve(count_of(model));
  for (const Tensor& tensor : model) {
    const auto& part = state.at(role + "/" + tensor.name);
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

void put_under(const std::string& prefix, const State& part, State& all) {
  for (const auto& [name, values] : part) all[prefix + name] = values;
}

State take_under(const std::string& prefix, const State& all) {
  State part;
  for (auto at = all.lower_bound(prefix); at != all.end() && at->first.starts_with(prefix); ++at)
    part[at->first.substr(prefix.size())] = at->second;
  return part;
}

void expect_state(const State& state, const std::vector<std::string>& roles, const Model& model) {
  std::set<std::string> known;
  for (const auto& role : roles) {
    for (const Tensor& tensor : model) {
      const std::string name = role + "/" + tensor.name;
      const auto at = state.find(name);
      if (at == state.end()) throw DataError("the state has no '" + name + "'");
      if (at->second.size() != tensor.count())
        throw DataError("the state's '" + name + "' has " + std::to_string(at->second.size()) +
                        " entries; the model's tensor has " + std::to_string(tensor.count()));
      known.insert(name);
    }
  }
  for (const auto& [name, values] : state)
    if (!known.contains(name))
      throw DataError("the state has '" + name + "', which is not remembered here");
}

Buffer write_state(const State& state) {
  Buffer out;
  Scratch scratch;
  FrameHeader header;
  header.shape = {0};
  for (const auto& [name, values] : state) header.shape[0] += values.size();
  const Operator identity = parse_operator("identity");
  FrameWriter frame(out, header, std::span(&identity, 1));
  std::uint64_t position = 0;
  for (const auto& [name, values] : state) {
    frame.add(position, values, 0, header.keys(), scratch, name);
    position += values.size();
  }
  frame.finish();
  return out;
}

State read_state(ByteView bytes) {
  const Frame frame = read_frame(bytes, {.max_count = bytes.size()});
  if (frame.operators.size() != 1 || frame.operators[0].spec() != "identity" ||
      !frame.covers_all() || std::ranges::any_of(frame.sections, &Section::rests))
    throw DataError("the frame is not a saved state");
  Scratch scratch;
  State state;
  for (const Section& section : frame.sections) {
    const auto [entry, fresh] = state.try_emplace(std::string(section.name), section.count);
    if (!fresh) throw DataError("the state has '" + entry->first + "' twice");
    add_section(frame, section, 1, entry->second, scratch);
  }
  return state;
}

}  // namespace laconic
