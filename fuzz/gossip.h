// Two ranks of a small gossip, one of which is an input.
#pragma once

#include "fuzz/fuzz.h"
#include "laconic/exchange/gossip/mixer.h"

namespace laconic::fuzz {

inline const Model kGossipModel = {{"w", {5, 4}}, {"b", {3}}};

// Every example of every mixer, in the order of their places.
inline const std::vector<std::string>& gossip_specs() {
  static const auto specs = [] {
    std::vector<std::string> all;
    for (const MixerInfo& info : mixers())
      all.insert(all.end(), info.examples.begin(), info.examples.end());
    std::ranges::sort(all, {}, place_of);
    return all;
  }();
  return specs;
}

// The mixer whose place is the next one at or after `selector`.
inline const std::string& gossip_spec_at(std::uint16_t selector) {
  const auto& specs = gossip_specs();
  const auto found = std::ranges::lower_bound(specs, selector, {}, place_of);
  return found == specs.end() ? specs.front() : *found;
}

inline std::unique_ptr<Mixer> gossip_mixer(const std::string& spec, Transport& transport) {
  const std::string name = spec.substr(0, spec.find(':'));
  const auto info = std::ranges::find(mixers(), name, &MixerInfo::name);
  const Operator op = parse_operator(info->wants_unbiased   ? "natural"
                                     : info->takes_operator ? "topk:0.2"
                                                            : "identity");
  return make_mixer(spec, {.transport = transport,
                           .model = kGossipModel,
                           .graph = make_graph("ring:2"),
                           .plan = make_plan(kGossipModel, "tensor", op),
                           .seed = 5});
}

inline std::vector<float> gossip_start(int rank) {
  std::vector<float> model(count_of(kGossipModel));
  for (std::size_t i = 0; i < model.size(); ++i)
    model[i] = static_cast<float>(i % 7) - 3 * static_cast<float>(rank);
  return model;
}

}  // namespace laconic::fuzz
