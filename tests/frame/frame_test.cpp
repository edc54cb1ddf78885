// The frame: what is written is read, and nothing else is.
#include "laconic/codecs/crc32c.h"
#include "laconic/codecs/varint.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes copy(const Buffer& buffer) { return {buffer.view().begin(), buffer.view().end()}; }

// A frame of three sections, two operators, a name, and one slice that is not finite.
Bytes sample() {
  Buffer out;
  Scratch scratch;
  FrameHeader header;
  header.seed = 0x123456789abcdef0;
  header.step = 300;
  header.rank = 2;
  header.ranks = 3;
  header.dtype = Dtype::bfloat16;
  header.shape = {7, 30};
  const std::vector<Operator> operators = {parse_operator("natural"),
                                           parse_operator("half:bf16+entropy")};
  FrameWriter frame(out, header, operators);
  EXPECT_TRUE(frame.add(0, made_up(100), 0, header.keys(), scratch, "conv1.weight"));
  EXPECT_TRUE(frame.add(100, made_up(9), 1, header.keys(), scratch));
  std::vector<float> bad = made_up(101);
  bad[50] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(frame.add(109, bad, 0, header.keys(), scratch, "fc"));
  EXPECT_EQ(frame.last_section().size(), 404U);
  frame.finish();
  return copy(out);
}

void repair_checksum(Bytes& frame) {
  store(frame.data() + frame.size() - 4, crc32c(ByteView(frame).first(frame.size() - 4)));
}

TEST(Frame, TellsAllThatWasWritten) {
  const Bytes bytes = sample();
  const Frame frame = read_frame(bytes);
  EXPECT_EQ(frame.header.seed, 0x123456789abcdef0U);
  EXPECT_EQ(frame.header.step, 300U);
  EXPECT_EQ(frame.header.rank, 2U);
  EXPECT_EQ(frame.header.ranks, 3U);
  EXPECT_EQ(frame.header.dtype, Dtype::bfloat16);
  EXPECT_EQ(frame.header.shape, (std::vector<std::uint64_t>{7, 30}));
  EXPECT_EQ(frame.spec(), "natural half:bf16+entropy");
  ASSERT_EQ(frame.sections.size(), 3U);
  EXPECT_EQ(frame.sections[0].name, "conv1.weight");
  EXPECT_EQ(frame.sections[1].first, 100U);
  EXPECT_EQ(frame.sections[1].operator_index, 1U);
  EXPECT_EQ(frame.sections[2].count, 101U);
  EXPECT_EQ(frame.sections[2].state, SectionState::not_finite);
  EXPECT_FALSE(frame.finite());
  EXPECT_TRUE(frame.covers_all());
  EXPECT_EQ(frame.wire_bytes, bytes.size());
  EXPECT_EQ(frame.crc, load<std::uint32_t>(bytes.data() + bytes.size() - 4));
  EXPECT_EQ(frame.payload_bytes, frame.sections[0].bytes.size() + frame.sections[1].bytes.size() +
                                     frame.sections[2].bytes.size());
}

TEST(Frame, ASliceThatIsNotFiniteArrivesAsItWas) {
  const Bytes bytes = sample();
  const Frame frame = read_frame(bytes);
  Scratch scratch;
  std::vector<float> y(101);
  add_section(frame, frame.sections[2], 1, y, scratch);
  auto expected = made_up(101);
  expected[50] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(y, expected);
}

TEST(Frame, EveryFlippedBitIsFound) {
  const Bytes bytes = sample();
  for (std::size_t at = 0; at < bytes.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      Bytes damaged = bytes;
      damaged[at] = static_cast<std::uint8_t>(damaged[at] ^ 1 << bit);
      EXPECT_THROW(read_frame(damaged), DataError) << at << " " << bit;
    }
}

TEST(Frame, EveryCutIsFound) {
  const Bytes bytes = sample();
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(read_frame(ByteView(bytes).first(size)), DataError);
  Bytes longer = bytes;
  longer.push_back(0);
  EXPECT_THROW(read_frame(longer), DataError);
}

// Damage by somebody who knows the checksum: refused, or a frame whose sections check or are
// refused; never worse.
TEST(Frame, ForgedFramesAreRefusedOrHarmless) {
  std::mt19937_64 random(9);
  const Bytes bytes = sample();
  Scratch scratch;
  std::size_t refused = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    Bytes forged = bytes;
    for (std::uint64_t i = 0; i <= random() % 3; ++i) {
      // Mostly in head and table, where lengths and counts are.
      const std::size_t at =
          random() % 4 ? (random() % 2 ? random() % 48 : forged.size() - 1 - random() % 48)
                       : random() % forged.size();
      forged[at] = static_cast<std::uint8_t>(random());
    }
    repair_checksum(forged);
    try {
      const Frame frame = read_frame(forged, {.max_count = 1 << 16});
      check_sections(frame, scratch);
      for (const Section& section : frame.sections) {
        std::vector<float> y(section.count);
        add_section(frame, section, 1, y, scratch);
      }
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000U);
  EXPECT_LT(refused, 20000U);
}

// Frames assembled by hand, one wrong thing each.
struct Parts {
  Bytes extensions = {0}, operators = {1, 7, 'n', 'a', 't', 'u', 'r', 'a', 'l'}, shape = {1, 2},
        rank = {0, 0};  // and the number of ranks
  std::uint8_t version = kDataVersion, dtype = 0;
  Bytes sections = {127, 127, 0}, table = {1, 0, 0, 2, 0, 3};

  // Filled in when it is 0.
  std::uint32_t table_size = 0;

  Bytes frame() const {
    Buffer out;
    const auto add = [&](const Bytes& bytes) { out.append(bytes); };
    add({'L', 'A', 'C', version});
    add(extensions);
    add(operators);
    add(Bytes(8));  // seed
    add({0});       // step
    add(rank);
    add({dtype});
    add(shape);
    add(sections);
    add(table);
    out.append_number(table_size ? table_size : static_cast<std::uint32_t>(table.size()));
    out.append_number(crc32c(out.view()));
    return copy(out);
  }
};

std::string refusal(const Parts& parts) {
  return message_of<DataError>([&] { read_frame(parts.frame()); });
}
bool says(const std::string& message, const std::string& what) {
  return message.find(what) != std::string::npos;
}

TEST(Frame, HandMadeFrameIsRead) {
  const Bytes bytes = Parts().frame();
  EXPECT_EQ(decompress(bytes), (std::vector<float>{1, 1}));
  EXPECT_EQ(copy(compress(parse_operator("natural"), std::vector<float>{1, 1})), bytes);
}

TEST(Frame, UnknownExtensionsAreSkippedUnlessRequired) {
  EXPECT_NO_THROW(read_frame(Parts{.extensions = {2, 8, 2, 'h', 'i', 10, 0}}.frame()));
  EXPECT_TRUE(says(refusal({.extensions = {1, 9, 1, 0}}), "needs extension 9"));
  EXPECT_TRUE(
      says(refusal({.extensions = {1, 8, 100}}), "an extension field should have 100 bytes"));
}

TEST(Frame, WhatDoesNotFitIsRefusedInWords) {
  EXPECT_TRUE(says(refusal({.version = 1}), "data version 1; this build reads version 4"));
  EXPECT_TRUE(says(refusal({.operators = {65}}), "names 65 operators"));
  EXPECT_TRUE(says(refusal({.operators = {1, 3, 'x', 'y', 'z'}}), "no operator 'xyz'"));
  EXPECT_TRUE(says(refusal({.operators = {1, 9, 'n', 'a', 't', 'u', 'r', 'a', 'l', ':', '9'}}),
                   "spells operator 'natural' otherwise"));
  EXPECT_TRUE(says(refusal({.dtype = 4}), "dtype 4; allowed: 0 to 3"));
  EXPECT_TRUE(says(refusal({.shape = {65}}), "65 dimensions"));
  EXPECT_TRUE(says(refusal({.shape = {1, 1}}), "a section of 2 entries begins at 0 of 1"));
  EXPECT_TRUE(
      says(refusal({.shape = {3, 0xff, 0xff, 0xff, 0xff, 15, 0xff, 0xff, 0xff, 0xff, 15, 0}}),
           "more than 2147483648"));
  EXPECT_TRUE(says(refusal({.rank = {3, 3}}), "of rank 3 of 3"));
  EXPECT_TRUE(says(refusal({.table = {1, 0, 0, 2, 4, 3}}), "names operator 1 of 1"));
  EXPECT_TRUE(says(refusal({.table = {1, 0, 0, 2, 1, 3}}), "not finite has 3 bytes for 2 floats"));
  EXPECT_TRUE(says(refusal({.table = {1, 0, 0, 2, 2, 3}}), "a section that rests has 3 bytes"));
  EXPECT_TRUE(says(refusal({.table = {1, 0, 0, 2, 3, 3}}), "state 3; allowed: 0 to 2"));
  EXPECT_TRUE(says(refusal({.table = {1, 0, 0, 2, 0, 4}}), "a section should have 4 bytes"));
  EXPECT_TRUE(says(refusal({.table = {1, 0, 0, 2, 0, 2}}), "1 bytes that belong to nothing"));
  EXPECT_TRUE(says(refusal({.table = {9, 0, 0, 2, 0, 3}}), "claims 9 sections"));
  EXPECT_TRUE(says(refusal({.table_size = 1000}), "table claims 1000 bytes"));
}

// A varint of 2^64 - 1.
const Bytes kLargest = {255, 255, 255, 255, 255, 255, 255, 255, 255, 1};

Bytes operator+(Bytes front, const Bytes& back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

TEST(Frame, GapsAreTakenIntoAccountAndCannotWrapAround) {
  const Bytes bytes = Parts{.shape = {1, 9}, .table = {2, 0, 3, 2, 0, 3, 0, 1, 3, 2, 0}}.frame();
  const Frame frame = read_frame(bytes);
  EXPECT_EQ(frame.sections[0].first, 3U);
  EXPECT_EQ(frame.sections[1].first, 6U);
  EXPECT_FALSE(frame.covers_all());
  EXPECT_TRUE(says(refusal({.table = {1, 0, 3, 0, 0, 0}}), "begins 3 entries after entry 0 of 2"));
  EXPECT_TRUE(says(refusal({.table = {1, 0, 1, 2, 0, 3}}), "2 entries begins at 1 of 2"));
  EXPECT_TRUE(says(refusal({.table = Bytes{1, 0} + kLargest + Bytes{2, 0, 3}}), "entry 0 of 2"));
  EXPECT_TRUE(says(refusal({.table = Bytes{1, 0, 0} + kLargest + Bytes{0, 3}}), "at 0 of 2"));
  EXPECT_TRUE(
      says(refusal({.table = Bytes{2, 0, 0, 2, 0, 3, 0} + kLargest + Bytes{1, 0, 0}}), "2 of 2"));
  EXPECT_TRUE(says(refusal({.table = Bytes{1, 0, 0, 2} + kLargest + Bytes{3}}), "names operator"));
  EXPECT_TRUE(says(refusal({.table = Bytes{1, 0, 0, 2, 0} + kLargest}), "a section should have"));
}

TEST(Frame, ASectionThatRestsIsZerosInNoBytes) {
  Buffer out;
  Scratch scratch;
  const FrameHeader header{.shape = {10}};
  const Operator op = parse_operator("natural");
  FrameWriter writer(out, header, {&op, 1});
  writer.rest(0, 4, 0, "asleep");
  EXPECT_TRUE(writer.last_section().empty());
  EXPECT_TRUE(writer.add(4, std::vector<float>{1, 2, 4}, 0, header.keys(), scratch));
  writer.rest(7, 3, 0);
  writer.finish();
  const Frame frame = read_frame(out.view());
  EXPECT_TRUE(frame.sections[0].rests() && frame.sections[2].rests() && frame.finite());
  EXPECT_TRUE(frame.covers_all());
  EXPECT_EQ(frame.payload_bytes, frame.sections[1].bytes.size());
  EXPECT_EQ(decompress(out.view()), (std::vector<float>{0, 0, 0, 0, 1, 2, 4, 0, 0, 0}));
}

TEST(Frame, TheWriterRefusesWhatReadersWouldRefuse) {
  Buffer out;
  Scratch scratch;
  const FrameHeader header{.shape = {10}};
  const Operator op = parse_operator("identity");
  FrameWriter writer(out, header, {&op, 1});
  const std::vector<float> x(4);
  const auto refusal = [&](std::uint64_t first, std::size_t index) {
    return message_of<UsageError>([&] { writer.add(first, x, index, header.keys(), scratch); });
  };
  writer.add(2, x, 0, header.keys(), scratch);
  EXPECT_TRUE(says(refusal(5, 0), "begins at entry 5, and the one before ends at 6"));
  EXPECT_TRUE(says(refusal(7, 0), "a section of 4 entries begins at 7 of 10"));
  EXPECT_TRUE(says(refusal(~0ULL, 0), "of 10"));
  EXPECT_TRUE(says(refusal(6, 1), "names operator 1 of 1"));
  writer.add(6, x, 0, header.keys(), scratch);
  writer.finish();
  EXPECT_EQ(read_frame(out.view()).sections.size(), 2U);
  const FrameHeader outsider{.rank = 2, .ranks = 2, .shape = {10}};
  EXPECT_TRUE(says(message_of<UsageError>([&] {
                     writer.begin(out, outsider, {&op, 1});
                   }),
                   "rank 2 of 2"));
}

TEST(Frame, AnEncoderThatThrowsLeavesTheFrameAsItWas) {
  Buffer out;
  Scratch scratch;
  const FrameHeader header{.shape = {2}};
  const Operator op = parse_operator("identity");
  FrameWriter writer(out, header, {&op, 1});
  const auto fail = [](Buffer& bytes) -> bool {
    bytes.append_number(1);
    throw DataError("no");
  };
  EXPECT_THROW(writer.add_section(0, 2, 0, fail), DataError);
  writer.add(0, std::vector<float>{3, 4}, 0, header.keys(), scratch);
  writer.finish();
  EXPECT_EQ(decompress(out.view()), (std::vector<float>{3, 4}));
}

TEST(Frame, AFrameThatIsReadIntoHasNothingOfTheOneBefore) {
  const Bytes bytes = sample(), other = Parts().frame();
  Frame frame = read_frame(bytes);
  read_frame(other, {}, frame);
  EXPECT_EQ(frame.spec(), "natural");
  EXPECT_EQ(frame.header.shape, (std::vector<std::uint64_t>{2}));
  EXPECT_EQ(frame.header.ranks, 0U);
  EXPECT_EQ(frame.sections.size(), 1U);
  EXPECT_EQ(frame.payload_bytes, 3U);
  EXPECT_EQ(frame.wire_bytes, other.size());
  const Bytes wrong = Parts{.table = {1, 0, 0, 2, 0, 2}}.frame();
  EXPECT_THROW(read_frame(wrong, {}, frame), DataError);
  EXPECT_TRUE(frame.sections.empty());
  read_frame(bytes, {}, frame);
  EXPECT_EQ(frame.spec(), "natural half:bf16+entropy");
  EXPECT_EQ(frame.sections.size(), 3U);
}

TEST(Frame, SectionsAreCheckedBeforeMemoryIsTaken) {
  const std::string wrong = message_of<DataError>([] {
    decompress(Parts{.sections = {127, 127, 4}}.frame());
  });
  EXPECT_TRUE(says(wrong, "bits set after its last entry")) << wrong;
  // Two thousand million entries in a few bytes.
  const Bytes huge = {1, 0, 0, 0x80, 0x80, 0x80, 0x80, 8, 0, 3};
  const Parts parts{.operators = {1, 15, 'n', 'a', 't', 'u', 'r', 'a', 'l', '+', 'e', 'n', 't', 'r',
                                  'o', 'p', 'y'},
                    .shape = {1, 0x80, 0x80, 0x80, 0x80, 8},
                    .table = huge};
  const std::string refused = message_of<DataError>([&] { decompress(parts.frame()); });
  EXPECT_TRUE(says(refused, "has 3 bytes, which cannot be")) << refused;
  EXPECT_TRUE(says(message_of<DataError>([] { decompress(Parts().frame(), {.max_count = 1}); }),
                   "more than 1 entries"));
}

TEST(Frame, PartOfAnArrayIsNotTheArray) {
  EXPECT_TRUE(says(message_of<DataError>([] {
                     decompress(Parts{.shape = {1, 3}}.frame());
                   }),
                   "only a part"));
}

TEST(Frame, ManyFramesInOneBuffer) {
  Buffer out;
  Scratch scratch;
  const std::vector<Operator> operators = {parse_operator("natural")};
  std::vector<std::size_t> ends;
  for (std::uint64_t step = 0; step < 3; ++step) {
    FrameHeader header;
    header.step = step;
    header.shape = {50};
    FrameWriter frame(out, header, operators);
    frame.add(0, made_up(50), 0, header.keys(), scratch);
    frame.finish();
    ends.push_back(out.size());
  }
  EXPECT_EQ(read_frame(out.view().subspan(ends[0], ends[1] - ends[0])).header.step, 1U);
}

TEST(Frame, RandomBytesAreRefused) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 10000; ++trial) {
    Bytes bytes(random() % 200);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    if (trial % 2 && bytes.size() > 12) {
      std::memcpy(bytes.data(), "LAC\3", 4);
      repair_checksum(bytes);
    }
    EXPECT_THROW(decompress(bytes), DataError);
  }
}

}  // namespace
}  // namespace laconic::testing
