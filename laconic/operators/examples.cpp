// The chains that stages give as examples, and their pairs.
#include <algorithm>

#include "laconic/operators/operator.h"

namespace laconic {

std::vector<std::string> example_specs() {
  std::vector<std::string> specs;
  for (const auto& stage : stages())
    specs.insert(specs.end(), stage.examples.begin(), stage.examples.end());
  return specs;
}

std::vector<std::string> first_specs() {
  std::vector<std::string> specs;
  for (const auto& stage : stages()) specs.push_back(stage.examples.front());
  return specs;
}

std::vector<std::string> pair_specs() {
  std::vector<std::string> specs;
  for (const auto& selector : stages())
    for (const auto& quantiser : stages())
      if (selector.role == Role::selector && quantiser.role == Role::quantiser)
        specs.push_back(selector.examples.front() + "+" + quantiser.examples.front());
  const auto examples = example_specs();
  std::erase_if(specs, [&](const std::string& spec) {
    return std::ranges::find(examples, spec) != examples.end();
  });
  return specs;
}

}  // namespace laconic
