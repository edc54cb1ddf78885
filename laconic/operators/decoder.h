// A section that was opened: checked to its last bit, ready to be added stretch by stretch.
#pragma once

#include <algorithm>
#include <vector>

#include "laconic/kernels/floats.h"
#include "laconic/operators/stage.h"

namespace laconic {

// Filled by Operator::open, open_plain or open_zeros. It keeps its memory when it is filled again:
// one per rank lets all ranks' sections be open at once and allocates nothing in steady state. It
// may point into the section's bytes, which must outlive its use.
class Decoder {
 public:
  Decoder() = default;
  Decoder(Decoder&&) = default;
  Decoder& operator=(Decoder&&) = default;

  // Entries of the section.
  std::size_t size() const { return count_; }

  // y[i] += weight * entry from + i, for from + i < to. `from` is a multiple of kBlock, `to` at
  // most size(). Cannot fail; threads may add distinct stretches.
  void add(std::size_t from, std::size_t to, float weight, float* y) const;

  // Whether a selector chose entries, and which: to be shown or counted, not to be added by.
  bool sparse() const { return sparse_; }
  std::vector<std::uint32_t> positions() const;

 private:
  friend class Operator;
  friend void sum_of(std::span<const Decoder* const> sections, std::size_t from, std::size_t to,
                     float weight, float* y);
  friend void open_plain(ByteView floats, Decoder& into);
  friend void open_zeros(std::size_t count, Decoder& into);

  void reset(std::size_t count);
  void index_positions();
  void take_values();
  void add_chosen(std::size_t first, std::size_t end, std::size_t from, float weight,
                  float* y) const;
  void add_marked(std::size_t from, std::size_t to, float weight, float* y) const;
  std::size_t first_at(std::size_t position) const;

  std::size_t count_ = 0;
  std::shared_ptr<const Quantiser> quantiser_;  // none: plain floats, or zeros
  PlaneViews planes_;                           // in the section, or in memory_ after a coder
  Buffer memory_;
  bool sparse_ = false;
  bool all_ = false;     // every entry was chosen
  bool marked_ = false;  // positions are in marks_, a bit for each entry; else in positions_
  Positions positions_;  // ascending
  Array<std::uint64_t> marks_;
  Array<float> values_;         // of the entries there
  Array<std::uint32_t> first_;  // for every block, and the end: the first position not below it
};

// y[i] = 0 + weight * entry from + i of the first section, + weight * that of the second and so on,
// for from + i < to, whatever y holds; the same bits as adding one after the other onto zeros.
void sum_of(std::span<const Decoder* const> sections, std::size_t from, std::size_t to,
            float weight, float* y);

// A section of floats as they are, NaN and Inf among them: 4 bytes each.
void open_plain(ByteView floats, Decoder& into);

// A section that rests: zeros.
void open_zeros(std::size_t count, Decoder& into);

}  // namespace laconic
