// Stores: the two arrays, and their way into a State.
#include "laconic/memory/store.h"

#include <algorithm>
#include <cmath>

#include "laconic/kernels/reduce.h"

namespace laconic {

Parameter Store::parameter() {
  return {.name = "store",
          .fallback = "fp32",
          .choices = {"fp32", "bf16", "8bit"},
          .help =
              "how the residual is kept; bf16 takes half the memory and rounds, 8bit a quarter "
              "and rounds at random"};
}

Store::Format Store::format_of(const Args& args) {
  const std::string& store = args.text("store");
  return store == "8bit" ? Format::bytes : store == "bf16" ? Format::bf16 : Format::fp32;
}

Store::Store(std::string role, const Model& model, Format format)
    : role_(std::move(role)),
      model_(model),
      places_(model),
      format_(format),
      current_(places_.tensors()) {
  if (format_ == Format::bytes) {
    bytes_.emplace(places_);
    return;
  }
  for (Buffer& array : arrays_)
    std::ranges::fill(array.reset(width() * places_.entries()), std::uint8_t{0});
}

Piece Store::piece(std::size_t tensor, std::size_t from, std::size_t count, unsigned which) const {
  if (bytes_) return bytes_->piece(tensor, from, count, which ^ current_[tensor]);
  return {count,
          arrays_[which ^ current_[tensor]].data() + width() * (places_.begin(tensor) + from),
          format_ == Format::fp32 ? Dtype::float32 : Dtype::bfloat16};
}

Floats Store::next(const Slice& slice, Key own) {
  if (!bytes_) return floats(slice, 1, next_pieces_);
  round_fresh();
  fresh_.offset = slice.offset;
  fresh_.own = own;
  return Floats(fresh_.values.reset(slice.count));
}

void Store::keep(const Slice& slice, Key own) {
  const Floats from = kept(slice), to = next(slice, own);
  float buffer[kBlock];
  for (std::size_t at = 0; at < slice.count; at += kBlock) {
    const std::size_t count = std::min(kBlock, slice.count - at);
    to.store(at, count, from.load(at, count, buffer));
  }
}

void Store::round_fresh() {
  const Slice slice{.name = {}, .offset = fresh_.offset, .count = fresh_.values.size()};
  std::span<const float> values = fresh_.values.view();
  places_.each(slice, [&](std::size_t tensor, std::size_t from, std::size_t count) {
    bytes_->write(tensor, from, values.first(count), 1U ^ current_[tensor], fresh_.own);
    values = values.subspan(count);
  });
  fresh_.values.clear();
}

// Neighbours in the same array are one piece; each tensor's bytes have groups of their own.
Floats Store::floats(const Slice& slice, unsigned which, std::vector<Piece>& pieces) {
  pieces.clear();
  places_.each(slice, [&](std::size_t tensor, std::size_t from, std::size_t count) {
    const Piece next = piece(tensor, from, count, which);
    if (!pieces.empty() && !bytes_ &&
        static_cast<std::uint8_t*>(pieces.back().data) + width() * pieces.back().count == next.data)
      pieces.back().count += count;
    else
      pieces.push_back(next);
  });
  return Floats(std::span<const Piece>(pieces));
}

void Store::commit(std::span<const std::size_t> tensors) {
  if (bytes_) {
    round_fresh();
    for (const std::size_t tensor : tensors) bytes_->close(tensor, 1U ^ current_[tensor]);
  }
  for (const std::size_t tensor : tensors) current_[tensor] ^= 1;
}

double Store::norm() const {
  double sum = 0;
  float buffer[kBlock];
  for (std::size_t t = 0; t < places_.tensors(); ++t) {
    const Piece all = piece(t, 0, places_.count(t), 0);
    const Floats values(std::span(&all, 1));
    for (std::size_t from = 0; from < all.count; from += kBlock) {
      const std::size_t count = std::min(kBlock, all.count - from);
      sum += kernels::sum_of_squares({values.load(from, count, buffer), count});
    }
  }
  return std::sqrt(sum);
}

void Store::save(State& state) const {
  for (std::size_t t = 0; t < places_.tensors(); ++t) {
    const Piece all = piece(t, 0, places_.count(t), 0);
    auto& values = state[role_ + "/" + model_[t].name];
    values.resize(all.count);
    const float* at = Floats(std::span(&all, 1)).load(0, all.count, values.data());
    if (at != values.data()) std::copy_n(at, all.count, values.data());
  }
}

// What was saved as bytes is found again to the bit: every value is a multiple of its step still.
void Store::load(const State& state) {
  fresh_.values.clear();
  for (std::size_t t = 0; t < places_.tensors(); ++t) {
    const std::vector<float>& values = state.at(role_ + "/" + model_[t].name);
    const Piece all = piece(t, 0, places_.count(t), 0);
    if (bytes_)
      bytes_->write(t, 0, values, current_[t], Key());
    else
      Floats(std::span(&all, 1)).store(0, all.count, values.data());
  }
}

State save_stores(std::initializer_list<const Store*> stores) {
  State state;
  for (const Store* store : stores) store->save(state);
  return state;
}

void load_stores(const State& state, std::initializer_list<Store*> stores) {
  std::vector<std::string> roles;
  for (const Store* store : stores) roles.push_back(store->role());
  expect_state(state, roles, (*stores.begin())->model());
  for (Store* store : stores) store->load(state);
}

}  // namespace laconic
