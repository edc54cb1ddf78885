// Reading frames. The numbers in comments are those of docs/frame.md. Nothing here trusts a number
// it has read.
#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/codecs/crc32c.h"
#include "laconic/codecs/varint.h"
#include "laconic/frame/frame.h"
#include "laconic/kernels/axpy.h"

namespace laconic {
namespace {

constexpr std::size_t kFooter = 8;          // table length and checksum
constexpr std::size_t kMostOperators = 64;  // far above what a layout needs; bounds the parsing
constexpr std::size_t kMostDimensions = 64;

// Magic, checksum, version: a damaged frame is told from a foreign one. Returns what lies between
// magic and checksum.
ByteView open_envelope(ByteView bytes) {
  if (bytes.size() < 4 || as_text(bytes.first(3)) != "LAC")
    throw DataError("not a Laconic frame: it does not begin with 'LAC'");
  if (bytes.size() < 4 + kFooter)
    throw DataError("the frame is cut short: " + std::to_string(bytes.size()) +
                    " bytes are fewer than any frame has");
  const auto stored = load<std::uint32_t>(bytes.data() + bytes.size() - 4);
  if (crc32c(bytes.first(bytes.size() - 4)) != stored)
    throw DataError("the frame is damaged or cut short: its checksum does not match");
  if (bytes[3] != kDataVersion)
    throw DataError("the frame has data version " + std::to_string(bytes[3]) +
                    "; this build reads version " + std::to_string(kDataVersion));
  return bytes.subspan(4, bytes.size() - 8);
}

void skip_extensions(ByteReader& in) {
  const std::uint64_t count = in.varint("the number of extension fields");
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t tag = in.varint("an extension tag");
    in.take(in.varint("an extension's length"), "an extension field");
    if (tag & 1)
      throw DataError("the frame needs extension " + std::to_string(tag) +
                      ", which this build does not know");
  }
}

std::vector<Operator> read_operators(ByteReader& in) {
  const std::uint64_t count = in.varint("the number of operators");
  if (count > kMostOperators)
    throw DataError("the frame names " + std::to_string(count) + " operators; allowed: up to " +
                    std::to_string(kMostOperators));
  std::vector<Operator> operators;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto spec = as_text(in.take(in.varint("a spec's length"), "a spec"));
    try {
      operators.push_back(parse_operator(spec));
    } catch (const UsageError& error) {
      throw DataError(std::string("the frame's operator cannot be used: ") + error.what());
    }
    if (operators.back().spec() != spec)
      throw DataError("the frame spells operator '" + operators.back().spec() + "' otherwise");
  }
  return operators;
}

void read_shape(ByteReader& in, const FrameLimits& limits, FrameHeader& header) {
  const std::uint64_t dimensions = in.varint("the number of dimensions");
  if (dimensions > kMostDimensions)
    throw DataError("the frame has " + std::to_string(dimensions) + " dimensions; allowed: up to " +
                    std::to_string(kMostDimensions));
  // The product is bounded at every step, counting zero extents as one, so it cannot wrap around.
  std::uint64_t product = 1;
  for (std::uint64_t i = 0; i < dimensions; ++i) {
    const std::uint64_t extent = in.varint("a dimension");
    if (extent > 0 && product > limits.max_count / extent)
      throw DataError("the frame's array has more than " + std::to_string(limits.max_count) +
                      " entries, the most allowed here");
    product *= std::max<std::uint64_t>(extent, 1);
    header.shape.push_back(extent);
  }
}

FrameHeader read_header(ByteReader& in, const FrameLimits& limits) {
  FrameHeader header;
  header.seed = in.number<std::uint64_t>("the seed");       // 1.5
  header.step = in.varint("the step");                      // 1.6
  header.rank = in.varint("the rank");                      // 1.7
  const auto dtype = in.number<std::uint8_t>("the dtype");  // 1.8
  if (dtype > static_cast<std::uint8_t>(Dtype::float64))
    throw DataError("the frame has dtype " + std::to_string(dtype) + "; allowed: 0 to 2");
  header.dtype = static_cast<Dtype>(dtype);
  read_shape(in, limits, header);                  // 1.9
  header.first = in.varint("the first position");  // 1.10
  if (header.first > header.count())
    throw DataError("the frame begins at entry " + std::to_string(header.first) + " of " +
                    std::to_string(header.count()));
  return header;
}

Section read_section(ByteReader& table, ByteReader& body, std::uint64_t first, const Frame& frame) {
  Section section;
  section.name = as_text(table.take(table.varint("a name's length"), "a section's name"));  // 3.1
  section.first = first;
  const std::uint64_t count = table.varint("a section's count");  // 3.2
  if (count > frame.header.count() - first)
    throw DataError("a section of " + std::to_string(count) + " entries begins at " +
                    std::to_string(first) + " of " + std::to_string(frame.header.count()));
  section.count = static_cast<std::size_t>(count);
  const std::uint64_t flags = table.varint("a section's operator");  // 3.3
  section.finite = (flags & 1) == 0;
  if (flags >> 1 >= frame.operators.size())
    throw DataError("a section names operator " + std::to_string(flags >> 1) + " of " +
                    std::to_string(frame.operators.size()));
  section.operator_index = static_cast<std::size_t>(flags >> 1);
  section.bytes = body.take(table.varint("a section's length"), "a section");  // 3.4
  if (!section.finite && section.bytes.size() != section.count * sizeof(float))
    throw DataError("a section marked as not finite has " + std::to_string(section.bytes.size()) +
                    " bytes for " + std::to_string(section.count) + " floats");
  return section;
}

}  // namespace

std::string_view dtype_name(Dtype dtype) {
  constexpr std::string_view kNames[] = {"float32", "float16", "float64"};
  return kNames[static_cast<std::size_t>(dtype)];
}

std::uint64_t FrameHeader::count() const {
  std::uint64_t product = 1;
  for (const std::uint64_t extent : shape) product *= extent;
  return product;
}

bool Frame::finite() const { return std::ranges::all_of(sections, &Section::finite); }

bool Frame::covers_all() const {
  const std::uint64_t end =
      sections.empty() ? header.first : sections.back().first + sections.back().count;
  return header.first == 0 && end == header.count();
}

std::string Frame::spec() const {
  std::vector<std::string> specs;
  for (const Operator& op : operators) specs.push_back(op.spec());
  return join(specs, " ");
}

Frame read_frame(ByteView bytes, const FrameLimits& limits) {
  ByteView inside = open_envelope(bytes);
  const auto table_size = load<std::uint32_t>(inside.data() + inside.size() - 4);  // 4.1
  inside = inside.first(inside.size() - 4);
  if (table_size > inside.size())
    throw DataError("the frame's table claims " + std::to_string(table_size) + " bytes of " +
                    std::to_string(inside.size()));
  ByteReader in(inside.first(inside.size() - table_size)), table(inside.last(table_size));

  Frame frame;
  skip_extensions(in);                   // 1.3
  frame.operators = read_operators(in);  // 1.4
  frame.header = read_header(in, limits);
  const std::uint64_t count = table.varint("the number of sections");
  if (count > table.left() / 4)  // the least a section takes in the table
    throw DataError("the frame claims " + std::to_string(count) + " sections in a table of " +
                    std::to_string(table_size) + " bytes");
  frame.sections.reserve(static_cast<std::size_t>(count));
  std::uint64_t position = frame.header.first;
  for (std::uint64_t i = 0; i < count; ++i) {
    frame.sections.push_back(read_section(table, in, position, frame));
    position += frame.sections.back().count;
    frame.payload_bytes += frame.sections.back().bytes.size();
  }
  if (in.left() > 0 || table.left() > 0)
    throw DataError("the frame has " + std::to_string(in.left() + table.left()) +
                    " bytes that belong to nothing");
  frame.wire_bytes = bytes.size();
  return frame;
}

void check_sections(const Frame& frame, Scratch& scratch) {
  for (const Section& section : frame.sections)
    if (section.finite)
      frame.operators[section.operator_index].check(section.bytes, section.count, scratch);
}

void add_section(const Frame& frame, const Section& section, float weight, std::span<float> y,
                 Scratch& scratch) {
  if (section.finite) {
    frame.operators[section.operator_index].add(section.bytes, weight, y,
                                                frame.header.keys().at(section.first), scratch);
    return;
  }
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] += weight * load<float>(section.bytes.data() + i * sizeof(float));
}

}  // namespace laconic
