// What a selector sees of the entries: passes over them, block by block, wherever they lie. The
// first pass also looks for NaN and Inf and writes what is left if nothing is kept, so that only
// kept entries remain to be done.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "laconic/base/array.h"
#include "laconic/base/pool.h"
#include "laconic/codecs/index.h"
#include "laconic/kernels/collect.h"
#include "laconic/kernels/select.h"
#include "laconic/operators/source.h"

namespace laconic {

// Entries by position, ascending, with their values; or, where many are kept, marked by a bit each
// (kernels/marks.h), with neither.
struct Picked {
  Positions positions;
  Array<float> values;
  Array<std::uint64_t> marks;
  Array<std::uint32_t> first;  // of the marks: operators/marked.h
  bool marked = false;

  std::size_t size() const { return positions.size(); }
  void clear();
  void add(std::uint32_t position, float value);
  void truncate(std::size_t size) {
    positions.truncate(size);
    values.truncate(size);
  }

  // Empties it, with room for so many.
  void make_room(std::size_t count) {
    positions.reset(count);
    values.reset(count);
    clear();
  }
};

// What one thread finds in its stretch, and its working memory.
struct Stretch {
  Picked found;
  // What a selector that goes run by run puts aside, and the run that it is at.
  Picked aside, again;
  std::size_t from = 0, to = 0;
  Array<std::uint32_t> magnitudes;
  std::uint32_t largest = 0;
  // What a selector that goes run by run remembers of the runs before: bounds, and a magnitude.
  kernels::Bounds bounds;
  float usual = 0;
};

class Entries {
 public:
  // x of the source, times `scale`. `memory` is for those who want one array, `parts` for threads.
  Entries(const Source& source, float scale, Array<float>& memory, std::vector<Stretch>& parts,
          Pool& pool)
      : source_(source), scale_(scale), memory_(memory), parts_(parts), pool_(pool) {}

  std::size_t size() const { return source_.fresh.size(); }

  // Makes `found` the entries that reach the bounds. Returns false when there is NaN or Inf. One
  // pass.
  bool collect(kernels::Bounds bounds, Picked& found);

  // The same for those who choose run by run: choose(look, part) is called for runs of `run`
  // entries, the last may be shorter, and appends to part.found what it keeps of a run.
  // look(bounds) appends to it what reaches the bounds there. Threads have runs of their own, and
  // `part` is theirs.
  template <class Choose>
  bool collect_runs(std::size_t run, Picked& found, Choose choose);

  // Appends what reaches the bounds among the entries from..to, which were looked at before.
  void look_again(std::size_t from, std::size_t to, kernels::Bounds bounds, Picked& found) const {
    collect_from(from, to, bounds, false, found);
  }

  // Makes kept.values the entries at kept.positions, ascending, in a pass over all. Returns false
  // when there is NaN or Inf anywhere.
  bool pass(Picked& kept);

  // Whether, by a look at some of them, more than a fourth of all reach this magnitude: marking
  // them is then sooner done than collecting them.
  bool many_reach(std::uint32_t least, Array<float>& memory) const;

  // Makes `found` marked: the entries above 0 that one cut keeps, and those below that the other
  // does. Both may be the same one. Returns false when there is NaN or Inf. One pass.
  bool mark(kernels::Cut& above, kernels::Cut& below, Picked& found);

  // Copies entries that are marked, of which `first` of each block is the number of those before
  // it, to where there is room for all of them, which may be any address.
  void take(std::span<const std::uint64_t> marks, std::span<const std::uint32_t> first,
            std::uint8_t* to) const;

  // What is left once entries are marked, if it lies so that it can be written in place: x, from
  // which what was decoded remains to be taken. Else null.
  float* left_in_place() const { return x_lies_in_left() ? source_.left.array() : nullptr; }
  bool is_left() const { return !source_.left.empty(); }

  // All as one array, finite or not; a pass unless they lie so.
  std::span<const float> array();

  // The entries at these positions.
  void gather(std::span<const std::uint32_t> positions, Array<float>& values) const;

  // The largest magnitude of all, as bits, after a pass.
  std::uint32_t largest() const { return largest_; }

  // How many entries there are of magnitudes that have their upper 11 bits in common, above 0 and
  // below. One pass.
  struct Tally {
    std::array<std::size_t, 2048> above{}, below{};
  };
  void tally(Tally& counts) const;

  Hint* hint() const { return source_.hint; }

  // Finishes what is left: where `positions` were kept, `values` are decoded; they are used up.
  void leave(std::span<const std::uint32_t> positions, std::span<float> values);

 private:
  const float* load(std::size_t from, std::size_t count, float* buffer) const;
  void leave_all(std::size_t from, std::size_t count, const float* x) const;
  bool x_lies_in_left() const { return left_written_ && source_.c == 1 && source_.left.array(); }
  bool leaves() const { return !source_.left.empty() && !left_written_; }
  bool streams() const;
  kernels::Mixture mixture(std::size_t from, std::size_t count, float* fresh, float* kept) const;
  std::uint32_t collect_block(std::size_t from, std::size_t count, const kernels::Mixture& x,
                              kernels::Bounds bounds, bool leaves, Picked& found) const;
  std::uint32_t collect_from(std::size_t from, std::size_t to, kernels::Bounds bounds, bool leaves,
                             Picked& found) const;
  bool finish_pass(Picked& found);
  template <class Use>
  void in_parts(std::size_t run, Picked& found, Use use);

  const Source& source_;
  float scale_;
  Array<float>& memory_;
  std::vector<Stretch>& parts_;
  Pool& pool_;
  bool left_written_ = false;  // with c * x
  std::uint32_t largest_ = 0;
};

// Calls use(from, to, part) for a stretch of whole runs on each thread. The first part has the
// memory of `found` until finish_pass.
template <class Use>
void Entries::in_parts(std::size_t run, Picked& found, Use use) {
  constexpr std::size_t kLeast = 16384;  // entries that are worth a thread
  const std::size_t runs = (size() + run - 1) / run;
  const std::size_t pieces =
      std::clamp<std::size_t>(size() / kLeast, 1, std::min<std::size_t>(pool_.threads(), runs));
  parts_.resize(std::max(parts_.size(), pieces));
  std::swap(found, parts_[0].found);
  for (Stretch& part : parts_) {
    part.found.clear();
    part.largest = 0;
    part.bounds = {};
    part.usual = 0;
  }
  pool_.each(pieces, [&](std::size_t piece, unsigned) {
    use(runs * piece / pieces * run, std::min(size(), runs * (piece + 1) / pieces * run),
        parts_[piece]);
  });
}

template <class Choose>
bool Entries::collect_runs(std::size_t run, Picked& found, Choose choose) {
  const bool leaves_all = leaves();
  in_parts(run, found, [&](std::size_t from, std::size_t to, Stretch& part) {
    for (; from < to; from += run) {
      bool first = true;
      part.from = from;
      part.to = std::min(to, from + run);
      const auto look = [&](kernels::Bounds bounds) {
        part.largest = std::max(part.largest, collect_from(part.from, part.to, bounds,
                                                           leaves_all && first, part.found));
        first = false;
      };
      choose(look, part);
    }
  });
  return finish_pass(found);
}

}  // namespace laconic
