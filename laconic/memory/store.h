// One number per entry of the model, kept from step to step as float32 or as bfloat16.
// Invariant: what is kept changes by commit and by load, and by nothing else. A step writes to a
// second array, so a step that is never committed leaves no trace.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "laconic/memory/memory.h"

namespace laconic {

// How a slice's next values start: kept * (what is kept) + fresh * (what is new).
struct Mix {
  float kept = 1, fresh = 1;
};

class Store {
 public:
  // bf16 takes half the memory: two arrays of 2 bytes per entry and floats for one slice. Each
  // commit rounds to nearest even, which moves an entry by up to 2^-8 of it.
  enum class Format { fp32, bf16 };

  // The parameter `store` of a memory, and what it was set to.
  static Parameter parameter();
  static Format format_of(const Args& args);

  // `role` names it in a State, as in "role/tensor".
  Store(std::string role, const Model& model, Format format = Format::fp32);

  const std::string& role() const { return role_; }
  const Model& model() const { return model_; }
  Slice all() const;  // the whole model as one slice

  // Starts the next values of a slice and returns them, to be changed until `close`. One slice is
  // open at a time. With mix.kept 0 nothing of the old remains, not even a NaN.
  std::span<float> open(const Slice& slice, std::span<const float> fresh, Mix mix = {});
  std::span<float> opened(const Slice& slice);
  void close(const Slice& slice);

  // The next values become those that are kept. Every slice must have been closed since the last.
  void commit();

  double norm() const;
  void save(State& state) const;
  void load(const State& state);  // expect_state has passed

 private:
  void read(std::size_t from, std::span<float> out) const;

  std::string role_;
  Model model_;
  Format format_;
  std::size_t count_;
  std::vector<float> kept_, next_;  // fp32; with bf16 next_ holds the open slice alone
  Buffer kept_halves_, next_halves_;
};

// All of a memory's stores as one state, and back. Throws DataError, with nothing changed, unless
// the state is exactly theirs.
State save_stores(std::initializer_list<const Store*> stores);
void load_stores(const State& state, std::initializer_list<Store*> stores);

}  // namespace laconic
