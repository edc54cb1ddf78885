// One number per entry of the model, kept from step to step as float32 or as bfloat16.
// Invariant: what is kept changes by commit and by load, and by nothing else. A step writes to a
// second array; commit makes it the first, tensor by tensor.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "laconic/layout/places.h"
#include "laconic/memory/memory.h"

namespace laconic {

class Store {
 public:
  // bf16 takes half the memory. Each step rounds to nearest even, which moves an entry by up to
  // 2^-8 of it.
  enum class Format { fp32, bf16 };

  // The parameter `store` of a memory, and what it was set to.
  static Parameter parameter();
  static Format format_of(const Args& args);

  // `role` names it in a State, as in "role/tensor".
  Store(std::string role, const Model& model, Format format = Format::fp32);

  const std::string& role() const { return role_; }
  const Model& model() const { return model_; }
  const Places& places() const { return places_; }

  // What is kept of a slice, and where its next values go. Each is valid until it is asked for
  // again.
  Floats kept(const Slice& slice) { return floats(slice, 0, kept_pieces_); }
  Floats next(const Slice& slice) { return floats(slice, 1, next_pieces_); }

  // The next values of these tensors become those that are kept.
  void commit(std::span<const std::size_t> tensors);

  double norm() const;
  void save(State& state) const;
  void load(const State& state);  // expect_state has passed

 private:
  Floats floats(const Slice& slice, unsigned which, std::vector<Piece>& pieces);
  std::size_t width() const { return format_ == Format::fp32 ? 4 : 2; }
  Piece piece(std::size_t tensor, std::size_t from, std::size_t count, unsigned which) const;

  std::string role_;
  Model model_;
  Places places_;
  Format format_;
  mutable Buffer arrays_[2];
  std::vector<std::uint8_t> current_;  // by tensor: which of the two arrays is kept
  std::vector<Piece> kept_pieces_, next_pieces_;
};

// All of a memory's stores as one state, and back. Throws DataError, with nothing changed, unless
// the state is exactly theirs.
State save_stores(std::initializer_list<const Store*> stores);
void load_stores(const State& state, std::initializer_list<Store*> stores);

}  // namespace laconic
