// Frames from hostile bytes. Input: u8 mode, then the frame. With an odd mode, magic, version and
// checksum are put right first, so that the parser behind them is reached.
#include <algorithm>
#include <cmath>

#include "fuzz/fuzz.h"
#include "laconic/frame/frame.h"

namespace laconic::fuzz {
namespace {

constexpr FrameLimits kLimits{.max_count = 1 << 16};

// What read_frame promises of a frame it returns.
void check_promises(const Frame& frame, ByteView bytes) {
  require(frame.header.count() <= kLimits.max_count, "the count is within the limit");
  require(frame.wire_bytes == bytes.size(), "the frame is all the bytes");
  std::uint64_t position = frame.header.first;
  std::size_t payload = 0;
  for (const Section& section : frame.sections) {
    require(section.first == position, "a section begins where the one before ended");
    require(section.operator_index < frame.operators.size(), "a section names an operator");
    position += section.count;
    payload += section.bytes.size();
  }
  require(position <= frame.header.count(), "no section ends beyond the array");
  require(payload == frame.payload_bytes, "the payload is the sections");
}

// Adds one section to zeros; empty when it is refused, which must not touch them.
std::vector<float> decode(const Frame& frame, const Section& section, bool good, Scratch& scratch) {
  std::vector<float> y(section.count);
  const bool added = accepts([&] { add_section(frame, section, 1, y, scratch); });
  require(added || section.finite, "a section that is not finite is always plain floats");
  require(!good || added, "a section that checks is added");
  if (added && section.finite)
    require(std::ranges::all_of(y, [](float v) { return std::isfinite(v); }),
            "a section not marked otherwise is finite");
  if (!added)
    require(std::ranges::count(y, 0.0F) == std::ssize(y), "a refused section adds nothing");
  return y;
}

// Decoded entries can be written again, as a frame that is read again.
void write_again(const Frame& frame, const std::vector<std::vector<float>>& entries) {
  Scratch scratch;
  Buffer out;
  FrameWriter writer(out, frame.header, frame.operators);
  for (std::size_t i = 0; i < entries.size(); ++i)
    writer.add(entries[i], frame.sections[i].operator_index, frame.header.keys(), scratch,
               frame.sections[i].name);
  const std::size_t payload = writer.finish();
  const Frame again = read_frame(out.view(), kLimits);
  check_sections(again, scratch);
  require(again.payload_bytes == payload && again.sections.size() == frame.sections.size() &&
              again.spec() == frame.spec() && again.header.shape == frame.header.shape,
          "a frame written again says the same");
}

void read(ByteView bytes) {
  Frame frame;
  if (!accepts([&] { frame = read_frame(bytes, kLimits); })) return;
  check_promises(frame, bytes);
  Scratch scratch;
  const bool good = accepts([&] { check_sections(frame, scratch); });
  std::vector<std::vector<float>> entries;
  for (const Section& section : frame.sections)
    entries.push_back(decode(frame, section, good, scratch));
  if (good) write_again(frame, entries);
}

}  // namespace
}  // namespace laconic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace laconic::fuzz;
  Input in(data, size);
  if (in.take<std::uint8_t>() % 2 == 1) {
    read(mended(in.rest()));
  } else {
    read(in.rest());
  }
  return 0;
}
