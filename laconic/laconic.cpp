// The shortest way through the library: one array, one frame.
#include "laconic/laconic.h"

namespace laconic {

Buffer compress(const Operator& op, std::span<const float> x, std::uint64_t seed) {
  Buffer out;
  Scratch scratch;
  FrameHeader header;
  header.seed = seed;
  header.shape = {x.size()};
  out.reserve(op.max_size(x.size()) + 128);
  FrameWriter frame(out, header, std::span(&op, 1));
  frame.add(0, x, 0, header.keys(), scratch);
  frame.finish();
  return out;
}

std::vector<float> decompress(ByteView bytes, const FrameLimits& limits) {
  const Frame frame = read_frame(bytes, limits);
  Scratch scratch;
  if (!frame.covers_all()) throw DataError("the frame holds only a part of its array");
  check_sections(frame, scratch);
  std::vector<float> values(static_cast<std::size_t>(frame.header.count()));
  for (const Section& section : frame.sections)
    add_section(frame, section, 1,
                std::span(values).subspan(static_cast<std::size_t>(section.first), section.count),
                scratch);
  return values;
}

}  // namespace laconic
