// The three ways a recipe can work; make_method chooses.
#pragma once

#include "laconic/methods/method.h"

namespace laconic {

// gradient -> mean over ranks -> one optimiser, whose state is the same on all ranks.
std::unique_ptr<Method> make_synchronous(const Model& model, std::unique_ptr<Optimizer> optimizer,
                                         std::unique_ptr<Aggregator> aggregator);

// Every rank's own optimiser; every `delay` steps the mean of what changed goes to the outer one.
std::unique_ptr<Method> make_local_steps(const Agreement& agreement,
                                         std::unique_ptr<Optimizer> optimizer,
                                         std::unique_ptr<Aggregator> aggregator,
                                         std::span<const float> start);

// Every rank's own optimiser and own model, which a mixer moves towards its neighbours'.
std::unique_ptr<Method> make_decentralised(const Model& model, std::unique_ptr<Optimizer> optimizer,
                                           std::unique_ptr<Mixer> mixer);

// Roles of a Saved's parts.
inline constexpr const char* kParameters = "parameters";
inline constexpr const char* kOptimizer = "optimizer:";
inline constexpr const char* kExchange = "exchange:";

// The arrays of one role among others, one after the other. Throws DataError unless each of the
// model's tensors has one.
std::vector<float> tensors_among(const std::string& role, const Model& model, const State& state);

}  // namespace laconic
