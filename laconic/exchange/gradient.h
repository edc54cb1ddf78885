// The tensors of the step under way, wherever the host keeps them.
#pragma once

#include <vector>

#include "laconic/layout/places.h"

namespace laconic {

class Gradient {
 public:
  explicit Gradient(const Model& model)
      : places_(model), arrays_(places_.tensors()), state_(arrays_.size(), State::missing) {}

  const Places& places() const { return places_; }

  // Forgets all arrays.
  void clear() { state_.assign(state_.size(), State::missing); }

  // From here on the tensor's gradient is there. One that rests is all zeros, and what is
  // remembered of it stays as it is; its array receives the mean all the same.
  void take(std::size_t tensor, void* data, Dtype dtype, bool rests) {
    arrays_[tensor] = {places_.count(tensor), data, dtype};
    state_[tensor] = rests ? State::rests : State::there;
  }

  // Before the first mean is written: tensors of the slice whose gradient is all zeros rest too.
  // What this rank still owes of them would be lost where the host passes over a tensor that no
  // rank used.
  void look(const Slice& slice);

  bool has(std::size_t tensor) const { return state_[tensor] != State::missing; }
  bool rests(std::size_t tensor) const { return state_[tensor] == State::rests; }

  // Of a tensor that is there, as it was handed over.
  std::size_t bytes(std::size_t tensor) const {
    return arrays_[tensor].count * dtype_size(arrays_[tensor].dtype);
  }

  // Whether all of the slice's tensors rest.
  bool rests(const Slice& slice) const;

  // The slice's entries, all of whose tensors are there; neighbours in memory are one piece. Valid
  // until it is asked for again.
  Floats floats(const Slice& slice) const;

 private:
  enum class State : std::uint8_t { missing, there, rests, sends };

  Places places_;
  std::vector<Piece> arrays_;  // by tensor
  std::vector<State> state_;
  mutable std::vector<Piece> pieces_;
};

}  // namespace laconic
