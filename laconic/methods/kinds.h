// The three kinds of methods; make_method chooses.
#pragma once

#include <algorithm>

#include "laconic/methods/method.h"

namespace laconic {

// gradient -> mean over ranks -> one optimiser, whose state is the same on all ranks.
std::unique_ptr<Method> make_synchronous(const Model& model,
                                         std::unique_ptr<Aggregator> aggregator);

// Every rank's own optimiser; every `delay` steps the mean of what changed goes to the outer one.
std::unique_ptr<Method> make_local_steps(const Agreement& agreement,
                                         std::unique_ptr<Aggregator> aggregator,
                                         std::span<const float> start);

// Every rank's own optimiser and own model, which a mixer moves towards its neighbours', every
// `delay` steps.
std::unique_ptr<Method> make_decentralised(const Agreement& agreement,
                                           std::unique_ptr<Mixer> mixer);

// Survivors settle what they are in doubt about and go on among themselves: `aggregator` becomes
// one over their transport. Returns what the last step has become. `settled` is called when nothing
// can go wrong any more and the old aggregator is still there.
Outcome go_on_among(const Agreement& agreement, Transport& among,
                    std::unique_ptr<Aggregator>& aggregator,
                    const std::function<void()>& settled = {});

// The role of the model in a Saved.
inline constexpr const char* kParameters = "parameters";

// The arrays of one role among others, one after the other. Throws DataError unless each of the
// model's tensors has one.
std::vector<float> tensors_among(const std::string& role, const Model& model, const State& state);

// Saves and loads the model, in the part of a Saved that has it, and what exchanges it: an
// Aggregator or a Mixer, whose state is always a rank's own. The model is written last, when all
// has been found to fit.
template <class Exchange>
Saved save_both(const Model& model, std::span<const float> parameters, State Saved::*part,
                const Exchange& exchange) {
  Saved saved;
  save_tensors(kParameters, model, parameters, saved.*part);
  put_under(kExchange, exchange.save(), saved.own);
  return saved;
}
template <class Exchange>
void load_both(const Saved& saved, const Model& model, std::span<float> parameters,
               State Saved::*part, Exchange& exchange) {
  const auto values = tensors_among(kParameters, model, saved.*part);
  exchange.load(take_under(kExchange, saved.own));
  std::ranges::copy(values, parameters.begin());
}

}  // namespace laconic
