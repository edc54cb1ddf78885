// Positions: which of `count` entries are meant, ascending and distinct, in as few bytes as can be.
// How many there are is known to both ends. Each codec is one file and registers itself.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/base/array.h"

namespace laconic {

using Positions = Array<std::uint32_t>;

// What positions are chosen from. With `chunk` above 0, positions may be spread evenly: exactly
// min(per_chunk, size) in every run of `chunk` entries (the last run may be shorter). They are
// spread so exactly when there are `evenly()` of them.
struct IndexSpace {
  std::size_t count = 0;
  std::size_t chunk = 0, per_chunk = 0;

  std::size_t evenly() const;
};

struct IndexCodec {
  std::string name;  // as in "topk:0.01,index=rice"
  unsigned tag;      // what stands for it on the wire: 0 to 7
  std::string summary, paper;
  std::string bits = {};  // what it writes, in one line

  // Exactly the bytes that write appends.
  std::function<std::size_t(std::span<const std::uint32_t> positions, const IndexSpace&)> size;
  // The most bytes that up to `kept` positions take, within kIndexSlack: a code fitted to fewer of
  // them may round up otherwise.
  std::function<std::size_t(std::size_t kept, const IndexSpace&)> max_size;
  std::function<void(std::span<const std::uint32_t> positions, const IndexSpace&, Buffer& out)>
      write;
  // Reads positions.size() positions off the front and returns what follows them. Throws DataError
  // unless the bytes are what write makes of ascending, distinct positions below count. The caller
  // has made sure that there are at most 8 positions per byte.
  std::function<ByteView(ByteView bytes, const IndexSpace&, std::span<std::uint32_t> positions)>
      read;
  // The same as marks (codecs/marks.h), for codes whose bytes are nearly that: `kept` > 0 of them,
  // and no more than entries. Nothing where only `read` can tell what they are, or what is wrong.
  // None: always.
  std::function<std::optional<ByteView>(ByteView bytes, const IndexSpace&, std::size_t kept,
                                        std::uint64_t* marks)>
      read_marks = {};
};

inline constexpr std::size_t kIndexSlack = 8;

// In the order of their tags.
const std::vector<IndexCodec>& index_codecs();

struct RegisterIndexCodec {
  explicit RegisterIndexCodec(IndexCodec codec);
};

// By name; throws UsageError naming those there are.
const IndexCodec& index_codec(std::string_view name);

// In the varint in front of positions the low bits are the codec's tag.
inline constexpr unsigned kIndexTagBits = 3;

// By the tag in the low bits of such a number; throws DataError when there is none.
const IndexCodec& index_codec_in(std::uint64_t number);

// The codec whose size is smallest, the lowest tag among equals.
const IndexCodec& smallest_index(std::span<const std::uint32_t> positions, const IndexSpace& space);

}  // namespace laconic
