// A method behind the C ABI, and the host's arrays, one per tensor.
#pragma once

#include "laconic/c_guard.h"
#include "laconic/layout/places.h"

struct laconic_method {
  laconic::Agreement agreement;
  laconic::Places places;
  std::unique_ptr<laconic::Method> method;
  // Where gradients stay with their rank: the host's arrays one after the other, during a call.
  std::vector<float> parameters = {}, gradient = {};
  std::vector<const float*> begun_with = {};  // the parameters of the step under way
  laconic::c::Maker maker = {};
};

namespace laconic::c {

// Throw UsageError, naming what to call instead of `verb`, unless gradients are averaged, or stay
// with their rank.
Aggregator& need_averaging(const laconic_method* method, const char* verb);
laconic_method& need_local(laconic_method* method, const char* verb);

// The host's arrays, none of which is missing.
template <class T>
std::span<T* const> arrays_of(T* const* arrays, const laconic_method& of, const std::string& name) {
  need(arrays, name);
  for (std::size_t t = 0; t < of.places.tensors(); ++t)
    if (of.places.count(t) > 0) need(arrays[t], name + "[" + std::to_string(t) + "]");
  return {arrays, of.places.tensors()};
}

// One after the other, and back.
void gather(const float* const* arrays, const Places& places, std::vector<float>& into);
void scatter(std::span<const float> from, const Places& places, float* const* arrays);

// What the exchange remembers, by the names of laconic_state_get, and back.
State exchange_state(const laconic_method& of);
void load_exchange(laconic_method& of, const State& state);

}  // namespace laconic::c
