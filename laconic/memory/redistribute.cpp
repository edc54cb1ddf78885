// One rule for each kind of role; what a role is its owner has registered.
#include "laconic/memory/redistribute.h"

#include <algorithm>
#include <optional>
#include <set>

#include "laconic/base/errors.h"

namespace laconic {
namespace {

using Values = std::vector<float>;

// Of "role/tensor".
Kept kept_of(const std::string& name) {
  if (const StateRole* role = find_role(name.substr(0, name.find('/')))) return role->kept;
  throw DataError("the state has '" + name + "', which no memory or exchange remembers");
}

bool of_shard(const std::string& name) {
  return name.starts_with(kOfShard) && !name.starts_with(kOfAllShards);
}

// Of all ranks' shards: a rank has those of the tensors it owns a part of.
std::set<std::string> names_of_owners(const std::vector<State>& states) {
  std::set<std::string> names;
  for (const State& state : states)
    for (const auto& [name, values] : state)
      if (of_shard(name)) names.insert(name);
  return names;
}

// But for those, all ranks have the same names.
void require_same_names(const std::vector<State>& states) {
  const auto names_of = [](const State& state) {
    std::set<std::string> names;
    for (const auto& [name, values] : state)
      if (!of_shard(name)) names.insert(name);
    return names;
  };
  const auto first = names_of(states[0]);
  for (std::size_t rank = 1; rank < states.size(); ++rank)
    if (names_of(states[rank]) != first)
      throw DataError("the states of rank 0 and rank " + std::to_string(rank) +
                      " are not of the same memory and model");
}

// The factor times the sum over ranks first, first + stride, ..., of those that have the array;
// zeros where none has.
Values sum_of(const std::vector<State>& states, const std::string& name, std::size_t first,
              std::size_t stride, double factor = 1) {
  std::optional<std::size_t> count;
  for (const State& state : states) {
    const auto at = state.find(name);
    if (at == state.end()) continue;
    if (count.value_or(at->second.size()) != at->second.size())
      throw DataError("the states' arrays '" + name + "' differ in length");
    count = at->second.size();
  }
  std::vector<double> sum(count.value_or(0));
  for (std::size_t rank = first; rank < states.size(); rank += stride)
    if (const auto at = states[rank].find(name); at != states[rank].end())
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += at->second[i];
  Values values(sum.size());
  std::ranges::transform(sum, values.begin(),
                         [&](double value) { return static_cast<float>(factor * value); });
  return values;
}

// What owners owe has the units of what ranks send: a debt, or, where ranks keep no debts but means
// (ef21), what their mean still lacks.
double factor_of_owners(const State& state, double from, double to) {
  bool debts = false, means = false;
  for (const auto& [name, values] : state) {
    if (of_shard(name)) continue;
    debts |= kept_of(name) == Kept::sum;
    means |= kept_of(name) == Kept::mean;
  }
  return means && !debts ? to / from : 1;
}

// "ef21.mean/w" of "ef21/w": what all ranks know instead of each other's.
std::string name_of_mean(const std::string& name) {
  const std::size_t slash = name.find('/');
  return name.substr(0, slash) + ".mean" + name.substr(slash);
}

bool is_mean_known(const std::string& name, const State& state) {
  const auto known = state.find(name_of_mean(name));
  return known != state.end() && kept_of(known->first) == Kept::same;
}

}  // namespace

State to_be_told(const State& own) {
  State told;
  for (const auto& [name, values] : own)
    if (of_shard(name) || (kept_of(name) == Kept::mean && !is_mean_known(name, own)))
      told.emplace(name, values);
  return told;
}

State among_survivors(const State& own, const std::vector<State>& told, int before) {
  require_same_names(told);
  State out;
  for (const auto& [name, values] : own) {
    if (of_shard(name)) continue;
    const bool gathered = kept_of(name) == Kept::mean;
    if (!gathered)
      out[name] = values;
    else if (is_mean_known(name, own))
      out[name] = own.at(name_of_mean(name));
    else
      out[name] = sum_of(told, name, 0, 1, 1 / static_cast<double>(told.size()));
    if (out[name].size() != values.size())
      throw DataError("the states' arrays '" + name + "' differ in length");
  }
  const double factor = factor_of_owners(own, before, static_cast<double>(told.size()));
  for (const std::string& name : names_of_owners(told)) {
    const std::string inner = name.substr(kOfShard.size());
    kept_of(inner);  // refuses what is unknown
    out[kOfAllShards + inner] = sum_of(told, name, 0, 1, factor);
  }
  return out;
}

std::vector<State> redistribute(const std::vector<State>& states, int ranks) {
  if (ranks < 1) throw UsageError(std::to_string(ranks) + " ranks; allowed: 1 and more");
  if (states.empty()) throw UsageError("states of 0 ranks; allowed: 1 and more");
  require_same_names(states);
  const std::size_t from = states.size(), to = static_cast<std::size_t>(ranks);
  if (from == to) return states;
  const double per_rank = 1 / static_cast<double>(from);
  std::vector<State> out(to);
  const auto give_all = [&](const std::string& name, const Values& values) {
    for (State& state : out) state[name] = values;
  };
  for (const auto& [name, values] : states[0]) {
    if (of_shard(name)) continue;
    switch (kept_of(name)) {
      case Kept::sum:
        for (std::size_t rank = 0; rank < to; ++rank)
          out[rank][name] = sum_of(states, name, rank, to);
        break;
      case Kept::mean:
        give_all(name, sum_of(states, name, 0, 1, per_rank));
        break;
      case Kept::same:
        give_all(name, values);
    }
  }
  const double factor = factor_of_owners(states[0], static_cast<double>(from), ranks);
  for (const std::string& name : names_of_owners(states)) {
    const std::string inner = name.substr(kOfShard.size());
    kept_of(inner);  // refuses what is unknown
    give_all(kOfAllShards + inner, sum_of(states, name, 0, 1, factor));
  }
  return out;
}

}  // namespace laconic
