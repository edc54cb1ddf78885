// Shards: which entries of the model each rank adds up, and the memory over such a part.
#pragma once

#include "laconic/exchange/exchange.h"

namespace laconic {

// Run i is the entries from bounds[i] up to, not including, bounds[i + 1]; rank owners[i] adds it
// up.
struct Shards {
  std::vector<std::size_t> bounds = {0};
  std::vector<int> owners = {};

  void add(std::size_t end, int owner);
  int owner_at(std::size_t entry) const;
  friend bool operator==(const Shards&, const Shards&) = default;
};

// Slices of 64 Ki entries and more, and those larger than a rank's share, are cut in as many pieces
// as there are ranks, at multiples of 4096 where they are large; the others are dealt, largest
// first, to the rank that has least. A function of its arguments alone, so all ranks find the same.
Shards even_shards(const Layout& layout, int ranks);

// One rank has it all.
Shards one_owner(std::size_t count);

// The plan with its slices cut at the bounds, without slices that are empty.
Plan cut_at(const Plan& plan, std::span<const std::size_t> bounds);

// Slices of a unit by the rank that adds them up.
class ByOwner {
 public:
  // `layout` is cut at the shards' bounds.
  void sort(const Layout& layout, const Shards& shards, Slices slices, int ranks);

  Slices of(int rank) const { return slices_[static_cast<std::size_t>(rank)]; }
  bool owns(int rank) const { return !of(rank).empty(); }

  // Who adds up the place-th of all slices, and where it is among that rank's.
  struct Place {
    int owner;
    std::size_t place;
  };
  Place place(std::size_t place) const { return places_[place]; }

 private:
  std::vector<std::vector<std::size_t>> slices_;
  std::vector<Place> places_;
};

// The frames in which owners send the sums of their shards to all.
class SumsOfOwners {
 public:
  // `bytes(owner)` is that owner's frame; who owns nothing sends none.
  template <class Bytes>
  void open(const Step& step, const Leg& leg, const ByOwner& owners, int me, int ranks,
            Bytes bytes) {
    const Timed timed(step.stats.decompress_seconds);
    frames_.resize(static_cast<std::size_t>(ranks));
    inputs_ = 0;
    for (int owner = 0; owner < ranks; ++owner)
      if (owners.owns(owner)) open(step, leg, owners, owner, bytes(owner), owner == me);
  }

  // As Unit's of these names.
  void mean(const ByOwner& owners, std::size_t place, std::size_t from,
            std::span<float> block) const;
  std::uint32_t inputs() const { return inputs_; }

 private:
  void open(const Step& step, const Leg& leg, const ByOwner& owners, int owner, ByteView bytes,
            bool own);

  std::vector<FrameIn> frames_;
  std::uint32_t inputs_ = 0;
};

// A memory of one rank's shard. Slices keep their places in the whole model. State is by tensor
// name behind kOfShard, for tensors of which some entries are in the shard; the others of their
// entries are 0. From the state of all shards it loads its own.
std::unique_ptr<Memory> make_shard_memory(std::string_view spec, const Model& model,
                                          const Plan& plan, const Shards& shards, int rank);

}  // namespace laconic
