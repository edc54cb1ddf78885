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
  require(frame.crc == load<std::uint32_t>(bytes.data() + bytes.size() - 4),
          "the checksum is told");
  std::uint64_t end = 0, covered = 0;
  std::size_t payload = 0;
  for (const Section& section : frame.sections) {
    require(section.first >= end, "no section begins before the end of the one before");
    require(section.operator_index < frame.operators.size(), "a section names an operator");
    require(section.count <= frame.header.count() - section.first,
            "no section ends beyond the array");
    require(!section.rests() || section.bytes.empty(), "a section that rests has no bytes");
    end = section.first + section.count;
    covered += section.count;
    payload += section.bytes.size();
  }
  require(frame.covers_all() == (covered == frame.header.count()), "all is all entries");
  require(payload == frame.payload_bytes, "the payload is the sections");
}

// Adds one section to zeros; empty when it is refused, which must not touch them.
std::vector<float> decode(const Frame& frame, const Section& section, bool good, Scratch& scratch) {
  std::vector<float> y(section.count);
  const bool added = accepts([&] { add_section(frame, section, 1, y, scratch); });
  require(added || section.finite(), "a section that is not finite is always plain floats");
  require(!good || added, "a section that checks is added");
  if (added && section.finite())
    require(std::ranges::all_of(y, [](float v) { return std::isfinite(v); }),
            "a section not marked otherwise is finite");
  if (section.rests())
    require(std::ranges::count(y, 0.0F) == std::ssize(y), "a section that rests adds nothing");
  if (!added)
    require(std::ranges::count(y, 0.0F) == std::ssize(y), "a refused section adds nothing");
  return y;
}

// Decoded entries can be written again, as a frame that is read again.
void write_again(const Frame& frame, const std::vector<std::vector<float>>& entries) {
  Scratch scratch;
  Buffer out;
  FrameWriter writer(out, frame.header, frame.operators);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Section& section = frame.sections[i];
    if (section.rests()) {
      writer.rest(section.first, section.count, section.operator_index, section.name);
    } else {
      writer.add(section.first, entries[i], section.operator_index, frame.header.keys(), scratch,
                 section.name);
    }
  }
  const std::size_t payload = writer.finish();
  const Frame again = read_frame(out.view(), kLimits);
  check_sections(again, scratch);
  const auto same_place = [](const Section& a, const Section& b) {
    return a.name == b.name && a.first == b.first && a.count == b.count && a.rests() == b.rests();
  };
  require(std::ranges::equal(again.sections, frame.sections, same_place),
          "sections written again are where they were");
  require(again.payload_bytes == payload && again.sections.size() == frame.sections.size() &&
              again.spec() == frame.spec() && again.header.shape == frame.header.shape &&
              again.header.ranks == frame.header.ranks,
          "a frame written again says the same");
}

// Whatever was read before leaves no trace in what is read.
Frame used_frame() {
  const auto operators = std::vector{parse_operator("half"), parse_operator("natural")};
  Scratch scratch;
  Buffer out;
  FrameWriter writer(out, {.ranks = 3, .shape = {2, 4}}, operators);
  writer.rest(3, 5, 1, "before");
  writer.finish();
  Frame frame;
  read_frame(out.view(), kLimits, frame);
  frame.sections.clear();  // their views end here
  return frame;
}

void read(ByteView bytes) {
  static const Frame used = used_frame();
  Frame frame = used;
  const bool read = accepts([&] { read_frame(bytes, kLimits, frame); });
  require(read || frame.sections.empty(), "what was refused has no sections");
  if (!read) return;
  require(frame.spec() == read_frame(bytes, kLimits).spec(), "operators are not mixed up");
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
