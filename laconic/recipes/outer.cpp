// Outer optimisers by name.
#include "laconic/recipes/outer.h"

#include "laconic/base/args.h"
#include "laconic/base/errors.h"
#include "laconic/operators/operator.h"

namespace laconic {
namespace {

std::vector<Parameter> parameters(std::string lr) {
  return {{.name = "momentum",
           .fallback = "0.9",
           .min = 0,
           .max = 0.9999,
           .help = "what is left of the momentum after a round"},
          {.name = "lr",
           .fallback = std::move(lr),
           .min = 0.001,
           .max = 10,
           .help = "how much of the averaged change is made"}};
}

}  // namespace

Outer parse_outer(std::string_view spec) {
  const auto stages = split_chain(spec);
  const std::string name(stages.size() == 1 ? stages[0].name : "");
  if (name == "none") {
    Args(name, {}, stages[0].args);  // takes none
    return {};
  }
  const bool nesterov = name == "nesterov";
  if (!nesterov && name != "momentum")
    throw UsageError("no outer optimiser '" + std::string(spec) +
                     "'; known: none momentum:MOMENTUM,LR nesterov:MOMENTUM,LR");
  const Args args(name, parameters(nesterov ? "0.7" : "1"), stages[0].args);
  return {.momentum = static_cast<float>(args.number("momentum")),
          .nesterov = nesterov,
          .lr = static_cast<float>(args.number("lr"))};
}

}  // namespace laconic
