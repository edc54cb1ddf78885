// What selectors that send their positions have in common: which codec, how many, in one varint.
#pragma once

#include "laconic/operators/stage.h"

namespace laconic {

// The parameter of every such selector: "index=rice", or "auto" for the smallest.
Parameter index_parameter();

// Entries kept of `count` at a density: ceil(density * count), at least one, at most count.
std::size_t kept_at(double density, std::size_t count);

// The parameter `density` of selectors that keep a share.
Parameter density_parameter();

class IndexedSelector : public Selector {
 public:
  // `exact`: it keeps most(count) entries unless there are too few that are not zero.
  IndexedSelector(const Args& args, bool exact);

  void write(std::span<const std::uint32_t> kept, std::size_t count, Buffer& out) const override;
  void write_marks(std::span<const std::uint64_t> marks, std::size_t kept, std::size_t count,
                   Positions& positions, Buffer& out) const override;
  std::size_t max_size(std::size_t count) const override;
  ByteView read(ByteView section, std::size_t count, const Keys& keys, Positions& kept,
                StageScratch& scratch) const override;
  std::optional<Marked> read_marks(ByteView section, std::size_t count,
                                   Array<std::uint64_t>& marks) const override;

 protected:
  virtual IndexSpace space(std::size_t count) const { return {.count = count}; }

 private:
  // What a section begins with.
  struct Head {
    const IndexCodec& codec;
    std::size_t number;  // of positions
    ByteView rest;
  };
  Head read_head(ByteView section, std::size_t count) const;

  std::string codec_;  // empty: the smallest, said in the section
  bool exact_;
};

}  // namespace laconic
