// Roles in a state: arrays are named "role/tensor", and what becomes of a role when the number of
// ranks changes is said once, by whoever remembers it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace laconic {

// What of a role is kept (redistribute.h).
enum class Kept {
  sum,   // debts: whoever has one pays it, and their sum over ranks is owed to the model
  mean,  // what each rank has gathered by itself: every rank goes on from the mean
  same,  // equal on all ranks
};

struct StateRole {
  std::string name;
  Kept kept;
};

// Enters roles in the table: those of memories, of exchanges, and of whoever else saves a state.
struct RegisterRoles {
  explicit RegisterRoles(const std::vector<StateRole>& roles);
};

// Null for a role nobody has registered.
const StateRole* find_role(std::string_view name);

// What names in the state of a shard's memory begin with: "down.feedback/conv1.weight" is one
// rank's shard, "down.all.feedback/conv1.weight" is of all shards.
inline const std::string kOfShard = "down.", kOfAllShards = "down.all.";

}  // namespace laconic
