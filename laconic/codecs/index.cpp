// The table of codecs for positions, and what holds for all of them.
#include "laconic/codecs/index.h"

#include <algorithm>

#include "laconic/base/args.h"
#include "laconic/base/errors.h"

namespace laconic {
namespace {

std::vector<IndexCodec>& table() {
  static std::vector<IndexCodec> codecs;
  return codecs;
}

void expect_new(const IndexCodec& codec) {
  if (codec.tag >> kIndexTagBits != 0)
    throw std::logic_error("index codec '" + codec.name + "' has a tag above 7");
  for (const IndexCodec& other : table())
    if (other.name == codec.name || other.tag == codec.tag)
      throw std::logic_error("index codecs '" + other.name + "' and '" + codec.name +
                             "' have the same name or tag");
}

void expect_countable(const IndexSpace& space) {
  if (space.count > 0xffffffffU)
    throw UsageError("positions among " + std::to_string(space.count) +
                     " entries are more than 32-bit numbers can name; allowed: up to 2^32 - 1");
}

// No positions take no bytes, and more than there are entries cannot be: said here once, so that
// codecs begin with 1 <= kept <= count.
IndexCodec guarded(IndexCodec codec) {
  codec.size = [size = std::move(codec.size)](std::span<const std::uint32_t> positions,
                                              const IndexSpace& space) {
    return positions.empty() ? 0 : size(positions, space);
  };
  codec.max_size = [max_size = std::move(codec.max_size)](std::size_t kept,
                                                          const IndexSpace& space) {
    return kept == 0 ? 0 : max_size(kept, space);
  };
  codec.write = [write = std::move(codec.write)](std::span<const std::uint32_t> positions,
                                                 const IndexSpace& space, Buffer& out) {
    expect_countable(space);
    if (!positions.empty()) write(positions, space, out);
  };
  codec.read = [read = std::move(codec.read)](ByteView bytes, const IndexSpace& space,
                                              std::span<std::uint32_t> positions) {
    expect_countable(space);
    if (positions.size() > space.count)
      throw DataError("there cannot be " + std::to_string(positions.size()) + " positions among " +
                      std::to_string(space.count) + " entries");
    return positions.empty() ? bytes : read(bytes, space, positions);
  };
  return codec;
}

}  // namespace

std::size_t IndexSpace::evenly() const {
  if (chunk == 0) return 0;
  return count / chunk * std::min(per_chunk, chunk) + std::min(per_chunk, count % chunk);
}

const std::vector<IndexCodec>& index_codecs() { return table(); }

RegisterIndexCodec::RegisterIndexCodec(IndexCodec codec) {
  expect_new(codec);
  const auto at = std::ranges::lower_bound(table(), codec.tag, {}, &IndexCodec::tag);
  table().insert(at, guarded(std::move(codec)));
}

const IndexCodec& index_codec(std::string_view name) {
  const auto at = std::ranges::find(table(), name, &IndexCodec::name);
  if (at != table().end()) return *at;
  std::vector<std::string> names;
  for (const IndexCodec& codec : table()) names.push_back(codec.name);
  throw UsageError("no index codec '" + std::string(name) + "'; known: " + join(names, " "));
}

const IndexCodec& index_codec_in(std::uint64_t number) {
  const std::uint64_t tag = number & ((1U << kIndexTagBits) - 1);
  const auto at = std::ranges::find(table(), tag, &IndexCodec::tag);
  if (at == table().end())
    throw DataError("positions are by index codec " + std::to_string(tag) +
                    ", which this build does not know");
  return *at;
}

const IndexCodec& smallest_index(std::span<const std::uint32_t> positions,
                                 const IndexSpace& space) {
  const IndexCodec* best = nullptr;
  std::size_t least = 0;
  for (const IndexCodec& codec : table()) {
    const std::size_t size = codec.size(positions, space);
    if (best != nullptr && size >= least) continue;
    best = &codec;
    least = size;
  }
  return *best;
}

}  // namespace laconic
