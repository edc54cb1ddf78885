// What a plan is made for: a model's tensors, and gradients of it that were recorded or are drawn.
#pragma once

#include <string>

#include "laconic/layout/layout.h"

namespace laconic {

struct Samples {
  std::string name = {};  // of the model
  Model model = {};
  std::vector<std::vector<float>> gradients = {};  // each of the model's count; one at least
  bool drawn = false;                              // not recorded
  double uses = 1;  // of a parameter in one forward pass, about; 1 where nobody knows
};

// `model` is a name of named_models, a .json file with a list of tensors, each {"name": ...,
// "shape": [...]}, or a .npz file of gradients by tensor. `files` are .npz of gradients of that
// model. Throws UsageError or DataError with one sentence. Without any gradient one is drawn:
// independent entries with density exp(-|x| / s) / 2s, heavier in its tails than a normal one, s =
// 0.01 / sqrt(columns) for each tensor.
Samples read_samples(const std::string& model, const std::vector<std::string>& files,
                     std::uint64_t seed = 1);

// The tensors of a JSON text as above.
Model read_model(std::string_view json);

inline constexpr const char* kDrawnAs =
    "drawn: two-sided exponential entries, tensors scaled by 1 / sqrt(columns)";

}  // namespace laconic
