// The frame: what is written is read, and nothing else is.
#include "laconic/codecs/crc32c.h"
#include "laconic/codecs/varint.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes copy(const Buffer& buffer) { return {buffer.view().begin(), buffer.view().end()}; }

// A frame of three sections, two operators, a name, and one slice that is not finite.
Bytes sample(std::uint64_t first = 0) {
  Buffer out;
  Scratch scratch;
  FrameHeader header;
  header.seed = 0x123456789abcdef0;
  header.step = 300;
  header.rank = 2;
  header.shape = {7, 30};
  header.first = first;
  const std::vector<Operator> operators = {parse_operator("natural"),
                                           parse_operator("half:bf16+entropy")};
  FrameWriter frame(out, header, operators);
  EXPECT_TRUE(frame.add(made_up(100), 0, header.keys(), scratch, "conv1.weight"));
  EXPECT_TRUE(frame.add(made_up(9), 1, header.keys(), scratch));
  std::vector<float> bad = made_up(101);
  bad[50] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(frame.add(bad, 0, header.keys(), scratch, "fc"));
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
  EXPECT_EQ(frame.header.shape, (std::vector<std::uint64_t>{7, 30}));
  EXPECT_EQ(frame.spec(), "natural half:bf16+entropy");
  ASSERT_EQ(frame.sections.size(), 3U);
  EXPECT_EQ(frame.sections[0].name, "conv1.weight");
  EXPECT_EQ(frame.sections[1].first, 100U);
  EXPECT_EQ(frame.sections[1].operator_index, 1U);
  EXPECT_EQ(frame.sections[2].count, 101U);
  EXPECT_FALSE(frame.sections[2].finite);
  EXPECT_FALSE(frame.finite());
  EXPECT_TRUE(frame.covers_all());
  EXPECT_EQ(frame.wire_bytes, bytes.size());
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
        first = {0};
  std::uint8_t version = 1, dtype = 0;
  Bytes sections = {127, 127, 0}, table = {1, 0, 2, 0, 3};
  std::uint32_t table_size = 5;

  Bytes frame() const {
    Buffer out;
    const auto add = [&](const Bytes& bytes) { out.append(bytes); };
    add({'L', 'A', 'C', version});
    add(extensions);
    add(operators);
    add(Bytes(8));       // seed
    add({0, 0, dtype});  // step, rank
    add(shape);
    add(first);
    add(sections);
    add(table);
    out.append_number(table_size);
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
  EXPECT_TRUE(says(refusal({.version = 2}), "data version 2; this build reads version 1"));
  EXPECT_TRUE(says(refusal({.operators = {65}}), "names 65 operators"));
  EXPECT_TRUE(says(refusal({.operators = {1, 3, 'x', 'y', 'z'}}), "no operator 'xyz'"));
  EXPECT_TRUE(says(refusal({.operators = {1, 9, 'n', 'a', 't', 'u', 'r', 'a', 'l', ':', '9'}}),
                   "spells operator 'natural' otherwise"));
  EXPECT_TRUE(says(refusal({.dtype = 3}), "dtype 3"));
  EXPECT_TRUE(says(refusal({.shape = {65}}), "65 dimensions"));
  EXPECT_TRUE(says(refusal({.shape = {1, 1}}), "a section of 2 entries begins at 0 of 1"));
  EXPECT_TRUE(
      says(refusal({.shape = {3, 0xff, 0xff, 0xff, 0xff, 15, 0xff, 0xff, 0xff, 0xff, 15, 0}}),
           "more than 2147483648"));
  EXPECT_TRUE(says(refusal({.first = {3}}), "begins at entry 3 of 2"));
  EXPECT_TRUE(says(refusal({.table = {1, 0, 2, 2, 3}}), "names operator 1 of 1"));
  EXPECT_TRUE(says(refusal({.table = {1, 0, 2, 1, 3}}), "not finite has 3 bytes for 2 floats"));
  EXPECT_TRUE(says(refusal({.table = {1, 0, 2, 0, 4}}), "a section should have 4 bytes"));
  EXPECT_TRUE(says(refusal({.table = {1, 0, 2, 0, 2}}), "1 bytes that belong to nothing"));
  EXPECT_TRUE(says(refusal({.table = {9, 0, 2, 0, 3}}), "claims 9 sections"));
  EXPECT_TRUE(says(refusal({.table_size = 1000}), "table claims 1000 bytes"));
}

TEST(Frame, SectionsAreCheckedBeforeMemoryIsTaken) {
  const std::string wrong = message_of<DataError>([] {
    decompress(Parts{.sections = {255, 127, 0}}.frame());
  });
  EXPECT_TRUE(says(wrong, "exponent of 255")) << wrong;
  // Two thousand million entries in a few bytes.
  const Bytes huge = {1, 0, 0x80, 0x80, 0x80, 0x80, 8, 0, 3};
  const Parts parts{.operators = {1, 15, 'n', 'a', 't', 'u', 'r', 'a', 'l', '+', 'e', 'n', 't', 'r',
                                  'o', 'p', 'y'},
                    .shape = {1, 0x80, 0x80, 0x80, 0x80, 8},
                    .table = huge,
                    .table_size = 9};
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
    frame.add(made_up(50), 0, header.keys(), scratch);
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
      std::memcpy(bytes.data(), "LAC\1", 4);
      repair_checksum(bytes);
    }
    EXPECT_THROW(decompress(bytes), DataError);
  }
}

}  // namespace
}  // namespace laconic::testing
