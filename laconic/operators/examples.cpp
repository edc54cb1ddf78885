// The chains that stages give as examples, and those made of their parts.
#include <algorithm>
#include <set>

#include "laconic/base/errors.h"
#include "laconic/operators/operator.h"

namespace laconic {
namespace {

using Specs = std::vector<std::string>;

// The stages of a role, each as its first example has it.
Specs stages_of(Role role) {
  Specs texts;
  for (const StageInfo& stage : stages()) {
    if (stage.role != role) continue;
    for (const StageText& part : split_chain(stage.examples.front()))
      if (part.name == stage.name)
        texts.push_back(part.args.empty() ? std::string(part.name)
                                          : std::string(part.name) + ":" + std::string(part.args));
  }
  return texts;
}

// Every stage of the first role before every one of the second, and so on.
Specs products(const std::vector<Role>& roles) {
  Specs chains = stages_of(roles.front());
  for (std::size_t i = 1; i < roles.size(); ++i) {
    Specs longer;
    for (const std::string& chain : chains)
      for (const std::string& stage : stages_of(roles[i])) longer.push_back(chain + "+" + stage);
    chains = std::move(longer);
  }
  return chains;
}

// The one spelling of a chain; empty when its stages do not go together.
std::string canonical(const std::string& chain) {
  try {
    return parse_operator(chain).spec();
  } catch (const UsageError&) {
    return {};
  }
}

}  // namespace

std::vector<std::string> example_specs() {
  Specs specs;
  for (const auto& stage : stages())
    specs.insert(specs.end(), stage.examples.begin(), stage.examples.end());
  return specs;
}

std::vector<std::string> first_specs() {
  Specs specs;
  for (const auto& stage : stages()) specs.push_back(stage.examples.front());
  return specs;
}

std::vector<std::string> chain_specs() {
  const Specs examples = example_specs();
  std::set<std::string> known(examples.begin(), examples.end());
  Specs specs;
  for (const std::vector<Role>& roles : {std::vector{Role::selector, Role::quantiser},
                                         {Role::scaler, Role::quantiser},
                                         {Role::bucket, Role::quantiser},
                                         {Role::quantiser, Role::coder},
                                         {Role::sparse_quantiser, Role::coder},
                                         {Role::selector, Role::bucket, Role::quantiser}})
    for (const std::string& chain : products(roles))
      if (const std::string spec = canonical(chain); !spec.empty() && known.insert(spec).second)
        specs.push_back(spec);
  return specs;
}

}  // namespace laconic
