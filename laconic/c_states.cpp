// The C ABI: what a method remembers, as bytes and by name.
#include "laconic/c_method.h"

namespace laconic::c {
namespace {

// The two halves of a Saved in one state.
constexpr const char* kCommon = "common:";
constexpr const char* kOwn = "own:";

Buffer write_saved(const Saved& saved) {
  State all;
  put_under(kCommon, saved.common, all);
  put_under(kOwn, saved.own, all);
  return write_state(all);
}

Saved read_saved(ByteView bytes) {
  const State all = read_state(bytes);
  Saved saved{take_under(kCommon, all), take_under(kOwn, all)};
  if (saved.common.size() + saved.own.size() != all.size())
    throw DataError("the frame is not a method's saved state");
  return saved;
}

// Of "role/tensor", and of a shard's.
std::string inner_name(const std::string& name) {
  for (const std::string& prefix : {kOfAllShards, kOfShard})
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return name;
}

std::string role_of(const std::string& name) {
  const std::string inner = inner_name(name);
  return inner.substr(0, inner.find('/'));
}

template <class Info>
bool has_role(const std::vector<Info>& infos, const std::string& spec, const std::string& role) {
  const auto at = std::ranges::find(infos, spec.substr(0, spec.find(':')), &Info::name);
  return at != infos.end() &&
         std::ranges::find(at->roles, role, &StateRole::name) != at->roles.end();
}

// Whether a recipe's exchange may remember something of this name, now or after a first step.
bool is_remembered(const laconic_method& of, const State& now, const std::string& name) {
  if (now.contains(name)) return true;
  const Recipe& recipe = of.agreement.recipe;
  const std::string role = role_of(name), inner = inner_name(name);
  const bool of_shard = inner != name;
  // Owners of shards that auto had among more ranks, and has no more, had feedback.
  const std::string owners = recipe.exchange == "auto" ? "feedback" : recipe.down_memory;
  if (!has_role(memories(), of_shard ? owners : recipe.memory, role) &&
      !has_role(exchanges(), recipe.exchange, role))
    return false;
  return std::ranges::find(of.agreement.model, inner.substr(inner.find('/') + 1), &Tensor::name) !=
         of.agreement.model.end();
}

// Debts begin at zero; what all ranks have in common stays as it is here.
std::vector<float> without(const std::string& name, const std::vector<float>& now) {
  const StateRole* role = find_role(role_of(name));
  return role && role->kept == Kept::same ? now : std::vector<float>(now.size());
}

void make_fit(const laconic_method& of, int flags, State& state) {
  if (flags == 0) return;
  const State now = exchange_state(of);
  if (flags & LACONIC_UNKNOWN_IGNORED)
    std::erase_if(state, [&](const auto& entry) { return !is_remembered(of, now, entry.first); });
  if (flags & LACONIC_MISSING_IS_ZERO)
    for (const auto& [name, values] : now)
      if (!state.contains(name) && !state.contains(kOfAllShards + inner_name(name)))
        state[name] = without(name, values);
}

// Where gradients are averaged the model is the host's, and may be left to it.
Saved saved_of(laconic_method& of, const float* const* parameters) {
  if (of.method->gradients() && !parameters) {
    Saved saved;
    put_under(kExchange, exchange_state(of), saved.own);
    return saved;
  }
  gather(arrays_of(parameters, of, "parameters").data(), of.places, of.parameters);
  return of.method->save(of.parameters);
}

void load_saved(laconic_method& of, Saved saved, int flags, float* const* parameters) {
  State exchange = take_under(kExchange, saved.own);
  make_fit(of, flags, exchange);
  if (of.method->gradients() && !parameters) return load_exchange(of, exchange);
  const auto arrays = arrays_of(parameters, of, "parameters");
  std::erase_if(saved.own, [](const auto& entry) { return entry.first.starts_with(kExchange); });
  put_under(kExchange, exchange, saved.own);
  of.parameters.resize(of.places.entries());
  of.method->load(saved, of.parameters);
  scatter(of.parameters, of.places, arrays.data());
}

State::const_iterator find_state(const State& state, const std::string& name, std::size_t count) {
  const auto at = state.find(name);
  if (at == state.end()) {
    std::vector<std::string> names;
    for (const auto& [known, values] : state) names.push_back(known);
    throw UsageError("no state '" + name + "'; known: " + join(names, " "));
  }
  if (at->second.size() != count)
    throw UsageError("the state '" + name + "' has " + std::to_string(at->second.size()) +
                     " entries, not " + std::to_string(count));
  return at;
}

// Of many ranks' states one rank's of another number of ranks.
Saved redistributed(const std::vector<Saved>& all, int ranks, std::size_t rank) {
  std::vector<State> parts;
  for (const Saved& saved : all) {
    if (saved.common != all[0].common)
      throw DataError("the states of rank 0 and rank " + std::to_string(parts.size()) +
                      " have not the same model");
    parts.push_back(take_under(kExchange, saved.own));
    if (parts.back().size() != saved.own.size() && all.size() != static_cast<std::size_t>(ranks))
      throw UsageError("rank " + std::to_string(parts.size() - 1) +
                       " has a model of its own, which no other can go on with; allowed: " +
                       std::to_string(all.size()) + " ranks");
  }
  if (all.size() == static_cast<std::size_t>(ranks)) return all[rank];
  Saved saved{all[0].common, {}};
  put_under(kExchange, redistribute(parts, ranks)[rank], saved.own);
  return saved;
}

}  // namespace

State exchange_state(const laconic_method& of) {
  if (const Aggregator* gradients = of.method->gradients()) return gradients->save();
  const std::vector<float> any(of.places.entries());
  return take_under(kExchange, of.method->save(any).own);
}

void load_exchange(laconic_method& of, const State& state) {
  if (Aggregator* gradients = of.method->gradients()) return gradients->load(state);
  std::vector<float> any(of.places.entries());
  Saved saved = of.method->save(any);
  std::erase_if(saved.own, [](const auto& entry) { return entry.first.starts_with(kExchange); });
  put_under(kExchange, state, saved.own);
  of.method->load(saved, any);
}

}  // namespace laconic::c

using namespace laconic;
using namespace laconic::c;

laconic_status laconic_method_save(laconic_method* method, const float* const* parameters,
                                   void* buffer, size_t capacity, size_t* size) {
  return guard([&] {
    const Buffer state = write_saved(saved_of(need(method, "method"), parameters));
    deliver_or_measure(state.view(), buffer, capacity, size);
  });
}

laconic_status laconic_method_load(laconic_method* method, const void* bytes, size_t size,
                                   int flags, float* const* parameters) {
  return guard([&] {
    constexpr int kFlags = LACONIC_MISSING_IS_ZERO | LACONIC_UNKNOWN_IGNORED;
    laconic_method& of = need(method, "method");
    if ((flags & ~kFlags) != 0)
      throw UsageError("no flags " + std::to_string(flags) + "; known: 1 and 2");
    load_saved(of, read_saved(view(bytes, size)), flags, parameters);
  });
}

laconic_status laconic_state_get(const laconic_method* method, const char* name, float* values,
                                 size_t count) {
  return guard([&] {
    const laconic_method& of = need(method, "method");
    const auto into = array(values, count, "values");
    const State state = exchange_state(of);
    std::ranges::copy(find_state(state, &need(name, "name"), count)->second, into.begin());
  });
}

laconic_status laconic_state_set(laconic_method* method, const char* name, const float* values,
                                 size_t count) {
  return guard([&] {
    laconic_method& of = need(method, "method");
    const auto from = array(values, count, "values");
    State state = exchange_state(of);
    const std::string key = find_state(state, &need(name, "name"), count)->first;
    state[key].assign(from.begin(), from.end());
    load_exchange(of, state);
  });
}

laconic_status laconic_states_redistribute(const void* const* states, const size_t* sizes,
                                           size_t count, int ranks, int rank, void* buffer,
                                           size_t capacity, size_t* size) {
  return guard([&] {
    const auto from = array(states, count, "states");
    const auto lengths = array(sizes, count, "sizes");
    if (count == 0) throw UsageError("states of 0 ranks; allowed: 1 and more");
    if (rank < 0 || rank >= ranks)
      throw UsageError("rank " + std::to_string(rank) + " of " + std::to_string(ranks));
    std::vector<Saved> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(read_saved(view(from[i], lengths[i])));
    const Saved mine = redistributed(all, ranks, static_cast<std::size_t>(rank));
    deliver_or_measure(write_saved(mine).view(), buffer, capacity, size);
  });
}
