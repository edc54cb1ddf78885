// The table of memories, and state by tensor name.
#include "laconic/memory/memory.h"

#include <set>

#include "laconic/base/registry.h"
#include "laconic/frame/frame.h"

namespace laconic {
namespace {

Registry<MemoryInfo>& registry() {
  static Registry<MemoryInfo> memories("memory");
  return memories;
}

void require_contraction(const std::string& memory, const Plan& plan) {
  for (std::size_t i = 0; i < plan.layout.size(); ++i) {
    const Traits traits = plan.op(i).traits(plan.layout[i].count);
    if (traits.delta && *traits.delta > 0) continue;
    throw UsageError(
        "memory '" + memory + "' diverges with '" + plan.op(i).spec() + "' on slice '" +
        plan.layout[i].name +
        "', which is no contraction; allowed: operators with a delta above 0 (see list)");
  }
}

}  // namespace

const std::vector<MemoryInfo>& memories() { return registry().all(); }

RegisterMemory::RegisterMemory(MemoryInfo info) { registry().add(std::move(info)); }

std::unique_ptr<Memory> make_memory(std::string_view spec, const Model& model, const Plan& plan) {
  const auto stages = split_chain(spec);
  if (stages.size() != 1) throw UsageError("a memory is one word, not '" + std::string(spec) + "'");
  const MemoryInfo& info = registry().at(stages[0].name);
  const Args args(info.name, info.parameters, stages[0].args);
  if (info.wants_contraction) require_contraction(info.name, plan);
  return info.make(model, args);
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
  for (const auto& [name, values] : state) frame.add(values, 0, header.keys(), scratch, name);
  frame.finish();
  return out;
}

State read_state(ByteView bytes) {
  const Frame frame = read_frame(bytes, {.max_count = bytes.size()});
  if (frame.operators.size() != 1 || frame.operators[0].spec() != "identity" || !frame.covers_all())
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
