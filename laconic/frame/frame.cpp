// What a frame that was read tells of itself, and its sections as numbers.
#include "laconic/frame/frame.h"

#include <algorithm>

namespace laconic {

std::uint64_t FrameHeader::count() const {
  std::uint64_t product = 1;
  for (const std::uint64_t extent : shape) product *= extent;
  return product;
}

bool Frame::finite() const { return std::ranges::all_of(sections, &Section::finite); }

// No entry is in two sections, so counting is enough.
bool Frame::covers_all() const {
  std::uint64_t covered = 0;
  for (const Section& section : sections) covered += section.count;
  return covered == header.count();
}

std::string Frame::spec() const {
  std::vector<std::string> specs;
  for (const Operator& op : operators) specs.push_back(op.spec());
  return join(specs, " ");
}

void check_sections(const Frame& frame, Scratch& scratch) {
  for (const Section& section : frame.sections)
    if (section.state == SectionState::coded)
      frame.operators[section.operator_index].check(section.bytes, section.count,
                                                    frame.header.keys().at(section.first), scratch);
}

void open_section(const Frame& frame, const Section& section, const Operator& op, Scratch& scratch,
                  Decoder& into) {
  if (section.rests())
    open_zeros(section.count, into);
  else if (!section.finite())
    open_plain(section.bytes, into);
  else
    op.open(section.bytes, section.count, frame.header.keys().at(section.first), scratch, into);
}

void add_section(const Frame& frame, const Section& section, float weight, std::span<float> y,
                 Scratch& scratch) {
  if (section.rests()) return;
  if (section.finite()) {
    frame.operators[section.operator_index].add(section.bytes, weight, y,
                                                frame.header.keys().at(section.first), scratch);
    return;
  }
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] += weight * load<float>(section.bytes.data() + i * sizeof(float));
}

}  // namespace laconic
