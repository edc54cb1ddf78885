// Reading frames. The numbers in comments are those of docs/frame.md. Nothing here trusts a number
// it has read.
#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/codecs/crc32c.h"
#include "laconic/codecs/varint.h"
#include "laconic/frame/frame.h"

namespace laconic {
namespace {

constexpr std::size_t kFooter = 8;          // table length and checksum
constexpr std::size_t kMostOperators = 64;  // far above what a layout needs; bounds the parsing
constexpr std::size_t kMostDimensions = 64;

// Magic, checksum, version: a damaged frame is told from a foreign one. Returns what lies between
// version and checksum, and tells the checksum.
ByteView open_envelope(ByteView bytes, const FrameLimits& limits, std::uint32_t& crc) {
  if (bytes.size() < 4 || as_text(bytes.first(3)) != "LAC")
    throw DataError("not a Laconic frame: it does not begin with 'LAC'");
  if (bytes.size() < 4 + kFooter)
    throw DataError("the frame is cut short: " + std::to_string(bytes.size()) +
                    " bytes are fewer than any frame has");
  crc = load<std::uint32_t>(bytes.data() + bytes.size() - 4);
  if (!limits.own && crc != crc32c(bytes.first(bytes.size() - 4)))
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

Operator read_operator(std::string_view spec) {
  try {
    Operator op = parse_operator(spec);
    if (op.spec() == spec) return op;
    throw DataError("the frame spells operator '" + op.spec() + "' otherwise");
  } catch (const UsageError& error) {
    throw DataError(std::string("the frame's operator cannot be used: ") + error.what());
  }
}

// Operators that are there already are kept: a spec has one spelling, so the same bytes mean the
// same operator.
void read_operators(ByteReader& in, std::vector<Operator>& operators) {
  const std::uint64_t count = in.varint("the number of operators");
  if (count > kMostOperators)
    throw DataError("the frame names " + std::to_string(count) + " operators; allowed: up to " +
                    std::to_string(kMostOperators));
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto spec = as_text(in.take(in.varint("a spec's length"), "a spec"));
    if (i == operators.size()) {
      operators.push_back(read_operator(spec));
    } else if (operators[i].spec() != spec) {
      operators[i] = read_operator(spec);
    }
  }
  operators.erase(operators.begin() + static_cast<std::ptrdiff_t>(count), operators.end());
}

void read_shape(ByteReader& in, const FrameLimits& limits, FrameHeader& header) {
  const std::uint64_t dimensions = in.varint("the number of dimensions");
  if (dimensions > kMostDimensions)
    throw DataError("the frame has " + std::to_string(dimensions) + " dimensions; allowed: up to " +
                    std::to_string(kMostDimensions));
  header.shape.clear();
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

void read_header(ByteReader& in, const FrameLimits& limits, FrameHeader& header) {
  header.seed = in.number<std::uint64_t>("the seed");  // 1.5
  header.step = in.varint("the step");                 // 1.6
  header.rank = in.varint("the rank");                 // 1.7
  header.ranks = in.varint("the number of ranks");     // 1.8
  if (header.ranks > 0 && header.rank >= header.ranks)
    throw DataError("the frame is of rank " + std::to_string(header.rank) + " of " +
                    std::to_string(header.ranks));
  const auto dtype = in.number<std::uint8_t>("the dtype");  // 1.9
  if (dtype >= kDtypes)
    throw DataError("the frame has dtype " + std::to_string(dtype) + "; allowed: 0 to " +
                    std::to_string(kDtypes - 1));
  header.dtype = static_cast<Dtype>(dtype);
  read_shape(in, limits, header);  // 1.10
}

// How many bytes a section has follows from its state, but for one that its operator wrote.
void require_size(const Section& section) {
  if (!section.finite() && section.bytes.size() != section.count * sizeof(float))
    throw DataError("a section marked as not finite has " + std::to_string(section.bytes.size()) +
                    " bytes for " + std::to_string(section.count) + " floats");
  if (section.rests() && !section.bytes.empty())
    throw DataError("a section that rests has " + std::to_string(section.bytes.size()) + " bytes");
}

// What the table says of sections, and their bytes in the body, one after the other.
class SectionReader {
 public:
  SectionReader(ByteReader& table, ByteReader& body, const Frame& frame)
      : table_(table),
        body_(body),
        operators_(frame.operators.size()),
        count_(frame.header.count()) {}

  Section next() {
    Section section;
    section.name =
        as_text(table_.take(table_.varint("a name's length"), "a section's name"));  // 3.1
    read_place(section);
    read_choice(section);
    section.bytes = body_.take(table_.varint("a section's length"), "a section");  // 3.5
    require_size(section);
    end_ = section.first + section.count;
    return section;
  }

 private:
  // No sum here can wrap around: each number is compared with what is left of the array.
  void read_place(Section& section) {
    const std::uint64_t gap = table_.varint("the gap before a section");  // 3.2
    if (gap > count_ - end_)
      throw DataError("a section begins " + std::to_string(gap) + " entries after entry " +
                      std::to_string(end_) + " of " + std::to_string(count_));
    section.first = end_ + gap;
    const std::uint64_t count = table_.varint("a section's count");  // 3.3
    if (count > count_ - section.first)
      throw DataError("a section of " + std::to_string(count) + " entries begins at " +
                      std::to_string(section.first) + " of " + std::to_string(count_));
    section.count = static_cast<std::size_t>(count);
  }

  void read_choice(Section& section) {
    const std::uint64_t choice = table_.varint("a section's operator");  // 3.4
    if (choice >> 2 >= operators_)
      throw DataError("a section names operator " + std::to_string(choice >> 2) + " of " +
                      std::to_string(operators_));
    if ((choice & 3) == 3) throw DataError("a section has state 3; allowed: 0 to 2");
    section.operator_index = static_cast<std::size_t>(choice >> 2);
    section.state = static_cast<SectionState>(choice & 3);
  }

  ByteReader& table_;
  ByteReader& body_;
  std::size_t operators_;
  std::uint64_t count_, end_ = 0;  // of the array; where the section before ended
};

void read_sections(ByteReader& table, ByteReader& body, Frame& frame) {
  const std::uint64_t count = table.varint("the number of sections");
  if (count > table.left() / 5)  // the least a section takes in the table
    throw DataError("the frame claims " + std::to_string(count) + " sections in a table of " +
                    std::to_string(table.left()) + " bytes");
  frame.sections.reserve(static_cast<std::size_t>(count));
  SectionReader sections(table, body, frame);
  for (std::uint64_t i = 0; i < count; ++i) {
    frame.sections.push_back(sections.next());
    frame.payload_bytes += frame.sections.back().bytes.size();
  }
}

// Reads what lies between version and checksum.
void read_inside(ByteView inside, const FrameLimits& limits, Frame& frame) {
  const auto table_size = load<std::uint32_t>(inside.data() + inside.size() - 4);  // 4.1
  inside = inside.first(inside.size() - 4);
  if (table_size > inside.size())
    throw DataError("the frame's table claims " + std::to_string(table_size) + " bytes of " +
                    std::to_string(inside.size()));
  ByteReader in(inside.first(inside.size() - table_size)), table(inside.last(table_size));
  skip_extensions(in);                  // 1.3
  read_operators(in, frame.operators);  // 1.4
  read_header(in, limits, frame.header);
  read_sections(table, in, frame);
  if (in.left() > 0 || table.left() > 0)
    throw DataError("the frame has " + std::to_string(in.left() + table.left()) +
                    " bytes that belong to nothing");
}

}  // namespace

void read_frame(ByteView bytes, const FrameLimits& limits, Frame& into) {
  into.sections.clear();
  into.payload_bytes = 0;
  into.wire_bytes = bytes.size();
  try {
    read_inside(open_envelope(bytes, limits, into.crc), limits, into);
  } catch (...) {
    into.sections.clear();
    throw;
  }
}

Frame read_frame(ByteView bytes, const FrameLimits& limits) {
  Frame frame;
  read_frame(bytes, limits, frame);
  return frame;
}

}  // namespace laconic
