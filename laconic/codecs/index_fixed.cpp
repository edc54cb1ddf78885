// fixed: each position in the same number of bits; relative to its chunk when they are spread
// evenly.
#include <algorithm>

#include "laconic/codecs/fixed.h"
#include "laconic/codecs/positions.h"
#include "laconic/codecs/varint.h"

namespace laconic {
namespace {

// How positions are cut in runs that lie in one stretch of entries each. Those that are not spread
// evenly are one run in one stretch.
struct Runs {
  std::size_t stretch, kept;
};

Runs runs_of(std::size_t kept, const IndexSpace& space) {
  if (space.chunk == 0 || space.chunk >= space.count || kept != space.evenly())
    return {space.count, kept};
  return {space.chunk, std::min(space.per_chunk, space.chunk)};
}

std::size_t size(std::span<const std::uint32_t> positions, const IndexSpace& space) {
  const std::size_t kept = positions.size();
  return packed_size(width_below(runs_of(kept, space).stretch), kept);
}

// One position fewer may mean that they are no longer spread evenly.
std::size_t max_size(std::size_t kept, const IndexSpace& space) {
  return packed_size(width_below(space.count), kept);
}

// Calls visit(run, first entry of its stretch) for each run.
template <class Span, class Visit>
void for_runs(Span positions, const Runs& runs, Visit visit) {
  for (std::size_t first = 0; !positions.empty(); first += runs.stretch) {
    const Span run = positions.first(std::min(runs.kept, positions.size()));
    visit(run, static_cast<std::uint32_t>(first));
    positions = positions.subspan(run.size());
  }
}

void write(std::span<const std::uint32_t> positions, const IndexSpace& space, Buffer& out) {
  const Runs runs = runs_of(positions.size(), space);
  const unsigned width = width_below(runs.stretch);
  out.reserve(out.size() + packed_size(width, positions.size()));
  BitWriter bits(out);
  for_runs(positions, runs, [&](std::span<const std::uint32_t> run, std::uint32_t first) {
    for (const std::uint32_t position : run) {
      if (position - first >= runs.stretch)
        throw std::logic_error("position " + std::to_string(position) +
                               " is not in its chunk: positions are not spread evenly");
      bits.put(position - first, width);
    }
  });
  bits.finish();
}

ByteView read(ByteView bytes, const IndexSpace& space, std::span<std::uint32_t> positions) {
  const Runs runs = runs_of(positions.size(), space);
  const unsigned width = width_below(runs.stretch);
  ByteReader in(bytes);
  unpack(in.take(packed_size(width, positions.size()), "positions of a fixed width"), width,
         positions);
  for_runs(positions, runs, [&](std::span<std::uint32_t> run, std::uint32_t first) {
    expect_ascending(run, std::min(runs.stretch, space.count - first));
    for (std::uint32_t& position : run) position += first;
  });
  return in.rest();
}

const RegisterIndexCodec fixed{{
    .name = "fixed",
    .tag = 4,
    .summary = "A fixed number of bits each, within a chunk when there is one.",
    .paper = "SparseLoCo (arXiv 2508.15706)",
    .bits = "k ceil(log2 n); of full chunks k ceil(log2 size)",
    .size = size,
    .max_size = max_size,
    .write = write,
    .read = read,
}};

}  // namespace
}  // namespace laconic
