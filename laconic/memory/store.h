// One number per entry of the model, kept from step to step as float32, as bfloat16 or as bytes.
// Invariant: what is kept changes by commit and by load, and by nothing else. A step writes to a
// second array; commit makes it the first, tensor by tensor.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "laconic/layout/places.h"
#include "laconic/memory/bytes.h"
#include "laconic/memory/memory.h"

namespace laconic {

class Store {
 public:
  // bf16 takes half the memory. Each step rounds to nearest even, which moves an entry by up to
  // 2^-8 of it. Bytes take a quarter, and one slice as float32: they are rounded at random so that
  // their mean is the entry, by less than 1/63.5 of the largest of 64 neighbours.
  enum class Format { fp32, bf16, bytes };

  // The parameter `store` of a memory, and what it was set to.
  static Parameter parameter();
  static Format format_of(const Args& args);

  // `role` names it in a State, as in "role/tensor".
  Store(std::string role, const Model& model, Format format = Format::fp32);

  const std::string& role() const { return role_; }
  const Model& model() const { return model_; }
  const Places& places() const { return places_; }

  // What is kept of a slice, and where its next values go. Each is valid until it is asked for
  // again. Rounding draws from `own`: a key of this step, as StepInfo::draws.
  Floats kept(const Slice& slice) { return floats(slice, 0, kept_pieces_); }
  Floats next(const Slice& slice, Key own = Key());
  // The next values of a slice are those that are kept.
  void keep(const Slice& slice, Key own = Key());

  // The next values of these tensors become those that are kept.
  void commit(std::span<const std::size_t> tensors);

  double norm() const;
  void save(State& state) const;
  void load(const State& state);  // expect_state has passed

 private:
  // The next values of one slice, which are rounded when the next slice's are asked for.
  struct Fresh {
    Array<float> values;
    std::size_t offset = 0;
    Key own;
  };

  void round_fresh();
  Floats floats(const Slice& slice, unsigned which, std::vector<Piece>& pieces);
  std::size_t width() const { return format_ == Format::fp32 ? 4 : 2; }
  Piece piece(std::size_t tensor, std::size_t from, std::size_t count, unsigned which) const;

  std::string role_;
  Model model_;
  Places places_;
  Format format_;
  mutable Buffer arrays_[2];  // none of bytes
  std::optional<ByteArrays> bytes_;
  Fresh fresh_;
  std::vector<std::uint8_t> current_;  // by tensor: which of the two arrays is kept
  std::vector<Piece> kept_pieces_, next_pieces_;
};

// All of a memory's stores as one state, and back. Throws DataError, with nothing changed, unless
// the state is exactly theirs.
State save_stores(std::initializer_list<const Store*> stores);
void load_stores(const State& state, std::initializer_list<Store*> stores);

}  // namespace laconic
