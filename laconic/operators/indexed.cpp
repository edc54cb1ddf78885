// Positions of a section: a varint, then what the codec writes.
//
// The varint holds how many entries were kept: as the number that is missing to the most there can
// be, which is nearly always 0, if that is known to both ends, else as it is. Its low three bits
// are the codec's tag unless the spec names the codec.
#include "laconic/operators/indexed.h"

#include <algorithm>
#include <cmath>

#include "laconic/base/errors.h"
#include "laconic/codecs/marks.h"
#include "laconic/codecs/varint.h"

namespace laconic {
namespace {

std::vector<std::string> codec_names() {
  std::vector<std::string> names = {"auto"};
  for (const IndexCodec& codec : index_codecs()) names.push_back(codec.name);
  return names;
}

}  // namespace

Parameter index_parameter() {
  return {.name = "index",
          .fallback = "auto",
          .names = codec_names,
          .help = "how positions are written; auto: the smallest for each slice"};
}

Parameter density_parameter() {
  return {.name = "density",
          .min = 1e-9,
          .max = 1,
          .help = "share of the entries that is kept, rounded up"};
}

// The product is lowered by 1e-12 of itself, far below one entry, so that 7 % of 100 is 7 although
// 0.07 * 100 is above 7 in binary.
std::size_t kept_at(double density, std::size_t count) {
  const double share = std::ceil(density * static_cast<double>(count) * (1 - 1e-12));
  return std::min(count, std::max<std::size_t>(1, static_cast<std::size_t>(share)));
}

IndexedSelector::IndexedSelector(const Args& args, bool exact)
    : codec_(args.text("index") == "auto" ? "" : args.text("index")), exact_(exact) {}

void IndexedSelector::write(std::span<const std::uint32_t> kept, std::size_t count,
                            Buffer& out) const {
  const IndexSpace where = space(count);
  const std::uint64_t number = exact_ ? most(count) - kept.size() : kept.size();
  const IndexCodec& codec = codec_.empty() ? smallest_index(kept, where) : index_codec(codec_);
  put_varint(codec_.empty() ? number << kIndexTagBits | codec.tag : number, out);
  codec.write(kept, where, out);
}

void IndexedSelector::write_marks(std::span<const std::uint64_t> marks, std::size_t kept,
                                  std::size_t count, Positions& positions, Buffer& out) const {
  const auto code = codec_.empty() && space(count).chunk == 0
                        ? smallest_of_marks(marks, kept, count)
                        : std::nullopt;
  if (!code) return Selector::write_marks(marks, kept, count, positions, out);
  const std::uint64_t number = exact_ ? most(count) - kept : kept;
  put_varint(number << kIndexTagBits | code->tag, out);
  put_marked(*code, marks, out);
}

// The smallest code is no larger than a bitmap.
std::size_t IndexedSelector::max_size(std::size_t count) const {
  const std::size_t bytes = codec_.empty()
                                ? packed_size(1, count)
                                : index_codec(codec_).max_size(most(count), space(count));
  return varint_size(static_cast<std::uint64_t>(count) << kIndexTagBits) + bytes + kIndexSlack;
}

IndexedSelector::Head IndexedSelector::read_head(ByteView section, std::size_t count) const {
  ByteReader in(section);
  std::uint64_t number = in.varint("the number of kept entries");
  const IndexCodec& codec = codec_.empty() ? index_codec_in(number) : index_codec(codec_);
  if (codec_.empty()) number >>= kIndexTagBits;
  if (number > most(count))
    throw DataError("a section of " + std::to_string(count) + " entries claims " +
                    std::to_string(number) + (exact_ ? " too few" : " kept") + "; allowed: up to " +
                    std::to_string(most(count)));
  if (exact_) number = most(count) - number;
  if (number / 8 > in.left())
    throw DataError("a section claims " + std::to_string(number) + " positions in " +
                    std::to_string(in.left()) + " bytes");
  return {codec, static_cast<std::size_t>(number), in.rest()};
}

ByteView IndexedSelector::read(ByteView section, std::size_t count, const Keys&, Positions& kept,
                               StageScratch&) const {
  const Head head = read_head(section, count);
  return head.codec.read(head.rest, space(count), kept.reset(head.number));
}

std::optional<Selector::Marked> IndexedSelector::read_marks(ByteView section, std::size_t count,
                                                            Array<std::uint64_t>& marks) const {
  constexpr std::size_t kMany = 8;  // one of so many entries: marks are then sooner walked
  const Head head = read_head(section, count);
  if (!head.codec.read_marks || head.number < count / kMany || head.number > count ||
      head.number == 0)
    return {};
  const auto to = marks.reset((count + 63) / 64 + kSpareMarks);
  const auto rest = head.codec.read_marks(head.rest, space(count), head.number, to.data());
  if (!rest) return {};
  return Marked{head.number, *rest};
}

}  // namespace laconic
