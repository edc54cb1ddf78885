// The table of roles.
#include "laconic/memory/roles.h"

#include "laconic/base/registry.h"

namespace laconic {
namespace {

Registry<StateRole>& registry() {
  static Registry<StateRole> roles("role");
  return roles;
}

}  // namespace

RegisterRoles::RegisterRoles(const std::vector<StateRole>& roles) {
  for (const StateRole& role : roles) registry().add(role);
}

const StateRole* find_role(std::string_view name) { return registry().find(name); }

}  // namespace laconic
