// Shapes of well-known networks: enough to count bytes without having the network.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "laconic/layout/layout.h"

namespace laconic {

struct NamedModel {
  std::string name, summary;
  Model (*make)();
  double uses;  // of a parameter in the forward pass of one image or text, in the mean, about
};

const std::vector<NamedModel>& named_models();

// The tensors of a model by its name, in the order in which training code has them. Throws
// UsageError naming those there are. Example: named_model("resnet50") has 161 tensors.
Model named_model(std::string_view name);

}  // namespace laconic
