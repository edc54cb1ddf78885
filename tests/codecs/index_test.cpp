// Codecs of positions: each gives back what it was given in exactly the bytes it says, and reads
// nothing that it would not write.
#include "laconic/codecs/index.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "laconic/codecs/elias.h"
#include "laconic/codecs/marks.h"
#include "laconic/codecs/ones.h"
#include "laconic/codecs/rice.h"
#include "tests/support.h"

namespace laconic::testing {
namespace {

using Indices = std::vector<std::uint32_t>;
using Bytes = std::vector<std::uint8_t>;

// Positions and what they were chosen from.
struct Support {
  std::string what;
  IndexSpace space;
  Indices positions;
};

Bytes written(const IndexCodec& codec, const Indices& positions, const IndexSpace& space) {
  Buffer out;
  codec.write(positions, space, out);
  return {out.view().begin(), out.view().end()};
}

Indices read_back(const IndexCodec& codec, ByteView bytes, const IndexSpace& space,
                  std::size_t kept) {
  Indices positions(kept, 0xeeeeeeeeU);
  EXPECT_TRUE(codec.read(bytes, space, positions).empty());
  return positions;
}

Indices at_random(std::size_t count, double density, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = static_cast<std::uint64_t>(density * 0x1p63);
  Indices positions;
  for (std::uint32_t i = 0; i < count; ++i)
    if (random() >> 1 < below) positions.push_back(i);
  return positions;
}

// Runs of neighbours with long ways between them.
Indices clustered(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Indices positions;
  for (std::uint64_t at = random() % 50; at < count; at += 1 + random() % 3000)
    for (const std::uint64_t end = std::min<std::uint64_t>(count, at + random() % 40); at < end;
         ++at)
      positions.push_back(static_cast<std::uint32_t>(at));
  return positions;
}

Indices from(std::uint32_t first, std::size_t kept) {
  Indices positions(kept);
  std::iota(positions.begin(), positions.end(), first);
  return positions;
}

// Exactly min(per_chunk, size) in every chunk.
Indices spread(const IndexSpace& space, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Indices positions;
  for (std::size_t first = 0; first < space.count; first += space.chunk) {
    const Indices all =
        from(static_cast<std::uint32_t>(first), std::min(space.chunk, space.count - first));
    std::ranges::sample(all, std::back_inserter(positions),
                        static_cast<std::ptrdiff_t>(space.per_chunk), random);
  }
  return positions;
}

std::vector<Support> make_supports() {
  std::vector<Support> all;
  for (const std::size_t count : {1, 2, 3, 8, 63, 64, 65, 100, 129, 1000, 4096, 70001}) {
    const IndexSpace space{.count = count};
    const std::string n = std::to_string(count);
    const auto last = static_cast<std::uint32_t>(count - 1);
    all.push_back({"none of " + n, space, {}});
    all.push_back({"all of " + n, space, from(0, count)});
    all.push_back({"first of " + n, space, {0}});
    all.push_back({"last of " + n, space, {last}});
    if (count > 1) all.push_back({"both ends of " + n, space, {0, last}});
    if (count > 1) all.push_back({"all but one of " + n, space, from(1, count - 1)});
    for (const std::size_t part : {2, 8, 50})
      if (count >= part)
        all.push_back({"the end of " + n, space,
                       from(static_cast<std::uint32_t>(count - count / part), count / part)});
    all.push_back({"clusters of " + n, space, clustered(count, count)});
    for (const double density : {0.0005, 0.003, 0.02, 0.1, 0.3, 0.5, 0.7, 0.97})
      all.push_back(
          {std::to_string(density) + " of " + n, space, at_random(count, density, count)});
  }
  for (const std::size_t chunk : {1, 2, 7, 64, 4096, 1000000})
    for (const std::size_t per_chunk : {1, 3, 64})
      for (const std::size_t count : {1, 64, 100, 9001}) {
        const IndexSpace space{.count = count, .chunk = chunk, .per_chunk = per_chunk};
        const std::string what = std::to_string(per_chunk) + " of each " + std::to_string(chunk) +
                                 " of " + std::to_string(count);
        all.push_back({what, space, spread(space, count)});
        Indices fewer = spread(space, count);
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(fewer.size() / 2));
        all.push_back({what + " but one", space, fewer});
      }
  return all;
}

const std::vector<Support>& supports() {
  static const auto all = make_supports();
  return all;
}

void for_codecs(const std::function<void(const IndexCodec&)>& body) {
  for (const IndexCodec& codec : index_codecs()) {
    SCOPED_TRACE(codec.name);
    body(codec);
  }
}

// The bits of a stream as the papers print them.
std::string as_bits(ByteView bytes, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += (bytes[i / 8] >> (i % 8) & 1) != 0 ? '1' : '0';
  return text;
}

Bytes from_bits(const std::string& text) {
  Bytes bytes((text.size() + 7) / 8);
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '1') bytes[i / 8] = static_cast<std::uint8_t>(bytes[i / 8] | 1U << (i % 8));
  return bytes;
}

// The digits of a number, highest first.
std::string digits(std::uint64_t number, unsigned width) {
  std::string text;
  for (unsigned i = width; i-- > 0;) text += (number >> i & 1) != 0 ? '1' : '0';
  return text;
}

std::string plain_rice(std::uint64_t value, unsigned bits, std::uint64_t largest) {
  const std::uint64_t ones = value >> bits;
  if (ones < 24)
    return std::string(static_cast<std::size_t>(ones), '1') + "0" + digits(value, bits);
  std::string low = digits(value, std::max(1U, static_cast<unsigned>(std::bit_width(largest))));
  std::ranges::reverse(low);
  return std::string(24, '1') + low;
}

std::string plain_omega(std::uint64_t number) {
  std::string text = "0";
  while (number > 1) {
    const auto width = static_cast<unsigned>(std::bit_width(number));
    text = digits(number, width) + text;
    number = width - 1;
  }
  return text;
}

std::string plain_gaps(const Indices& positions,
                       const std::function<std::string(std::uint64_t)>& code) {
  std::string text;
  std::uint64_t next = 0;
  for (const std::uint32_t position : positions) {
    text += code(position - next);
    next = position + 1ULL;
  }
  return text;
}

TEST(Index, TheTableIsInTheOrderOfTags) {
  std::vector<std::string> names;
  std::vector<unsigned> tags;
  for (const IndexCodec& codec : index_codecs()) {
    names.push_back(codec.name);
    tags.push_back(codec.tag);
    EXPECT_EQ(&index_codec(codec.name), &codec);
    EXPECT_FALSE(codec.summary.empty());
    EXPECT_FALSE(codec.paper.empty());
  }
  EXPECT_TRUE(std::ranges::is_sorted(tags));
  EXPECT_EQ(std::ranges::adjacent_find(tags), tags.end());
  EXPECT_EQ((std::vector<std::string>(names.begin(), names.begin() + 6)),
            (std::vector<std::string>{"rice", "fano", "bitmap", "varint", "fixed", "omega"}));
  EXPECT_EQ(message_of<UsageError>([] { index_codec("ricee"); }).substr(0, 51),
            "no index codec 'ricee'; known: rice fano bitmap var");
}

TEST(Index, ATagOrANameIsTakenOnce) {
  IndexCodec same = index_codecs().front();
  EXPECT_THROW(RegisterIndexCodec{same}, std::logic_error);
  same.name = "another";
  EXPECT_THROW(RegisterIndexCodec{same}, std::logic_error);
  same.tag = 8;
  EXPECT_THROW(RegisterIndexCodec{same}, std::logic_error);
}

TEST(Index, EvenlyCountsTheShortChunkToo) {
  EXPECT_EQ((IndexSpace{.count = 100}).evenly(), 0U);
  EXPECT_EQ((IndexSpace{.count = 100, .chunk = 10, .per_chunk = 3}).evenly(), 30U);
  EXPECT_EQ((IndexSpace{.count = 101, .chunk = 10, .per_chunk = 3}).evenly(), 31U);
  EXPECT_EQ((IndexSpace{.count = 107, .chunk = 10, .per_chunk = 3}).evenly(), 33U);
  EXPECT_EQ((IndexSpace{.count = 107, .chunk = 10, .per_chunk = 30}).evenly(), 107U);
  EXPECT_EQ((IndexSpace{.count = 5, .chunk = 10, .per_chunk = 3}).evenly(), 3U);
}

TEST(Index, PositionsComeBackFromExactlyTheirSize) {
  for_codecs([](const IndexCodec& codec) {
    for (const auto& [what, space, positions] : supports()) {
      SCOPED_TRACE(what);
      const Bytes bytes = written(codec, positions, space);
      EXPECT_EQ(codec.size(positions, space), bytes.size());
      EXPECT_LE(bytes.size(), codec.max_size(positions.size(), space));
      EXPECT_EQ(read_back(codec, bytes, space, positions.size()), positions);
      EXPECT_TRUE(!positions.empty() || bytes.empty());
    }
  });
}

TEST(Index, WhatStandsBeforeAndAfterIsLeftAlone) {
  for_codecs([](const IndexCodec& codec) {
    for (const auto& [what, space, positions] : supports()) {
      SCOPED_TRACE(what);
      for (const std::uint8_t next : {std::uint8_t{0}, std::uint8_t{0xff}}) {
        Buffer out;
        out.append(as_bytes("before"));
        codec.write(positions, space, out);
        EXPECT_EQ(as_text(out.view().first(6)), "before");
        const Bytes after(11, next);
        out.append(after);
        Indices back(positions.size());
        const ByteView left = codec.read(out.view(6), space, back);
        EXPECT_EQ(back, positions);
        EXPECT_TRUE(std::ranges::equal(left, after));
        EXPECT_EQ(left.data() + left.size(), out.data() + out.size());
      }
    }
  });
}

// Positions by marks, where a codec gives any.
struct Marks {
  Indices positions;
  std::size_t left = 0;  // bytes that follow
};
std::optional<Marks> marks_of(const IndexCodec& codec, ByteView bytes, const IndexSpace& space,
                              std::size_t kept) {
  const std::size_t words = (space.count + 63) / 64;
  std::vector<std::uint64_t> marks(words + kSpareMarks, 0xeeeeeeeeeeeeeeeeU);
  const auto rest = codec.read_marks(bytes, space, kept, marks.data());
  if (!rest) return {};
  Marks all;
  all.left = rest->size();
  for (std::uint32_t i = 0; i < 64 * words; ++i)
    if (marks[i / 64] >> i % 64 & 1) all.positions.push_back(i);
  return all;
}

TEST(Index, MarksAreWherePositionsAre) {
  for_codecs([](const IndexCodec& codec) {
    if (!codec.read_marks) return;
    std::size_t some = 0;
    for (const Support& support : supports()) {
      if (support.positions.empty()) continue;
      SCOPED_TRACE(support.what);
      Bytes bytes = written(codec, support.positions, support.space);
      bytes.insert(bytes.end(), 11, 0xff);
      on_every_cpu([&](const std::string& cpu) {
        SCOPED_TRACE(cpu);
        const auto marks = marks_of(codec, bytes, support.space, support.positions.size());
        some += marks.has_value();
        if (!marks) return;
        EXPECT_EQ(marks->positions, support.positions);
        EXPECT_EQ(marks->left, 11U);
      });
    }
    EXPECT_GT(some, 100U);
  });
}

// Where marks are read from what is damaged, positions are, too: none are read that `read` refuses.
TEST(Index, MarksOfDamagedBytesAreThoseThatReadTakes) {
  std::mt19937_64 random(5);
  for_codecs([&](const IndexCodec& codec) {
    if (!codec.read_marks) return;
    for (const std::size_t count : {5, 64, 100, 700, 4096})
      for (const double density : {0.2, 0.3, 0.36, 0.5, 0.9})
        for (int round = 0; round < 60; ++round) {
          const IndexSpace space{.count = count};
          const Indices positions = at_random(count, density, random());
          if (positions.empty()) continue;
          Bytes bytes = written(codec, positions, space);
          const std::size_t at = random() % bytes.size();
          if (round % 3 == 0) bytes[at] ^= static_cast<std::uint8_t>(1U << random() % 8);
          if (round % 3 == 1) bytes.resize(at);
          if (round % 3 == 2)
            std::fill_n(bytes.data() + at, std::min<std::size_t>(4, bytes.size() - at), 255);
          const auto marks = marks_of(codec, bytes, space, positions.size());
          if (!marks) continue;
          Indices back(positions.size());
          const ByteView left = codec.read(bytes, space, back);
          EXPECT_EQ(marks->positions, back);
          EXPECT_EQ(marks->left, left.size());
        }
  });
}

// Of all choices of `kept` out of small counts: no size is above the bound.
TEST(Index, MaxSizeHoldsForEveryChoice) {
  for_codecs([](const IndexCodec& codec) {
    for (const std::size_t count : {1, 2, 5, 11, 14}) {
      for (std::uint32_t chosen = 0; chosen < 1U << count; ++chosen) {
        Indices positions;
        for (std::uint32_t i = 0; i < count; ++i)
          if ((chosen >> i & 1) != 0) positions.push_back(i);
        const IndexSpace space{.count = count};
        ASSERT_LE(codec.size(positions, space), codec.max_size(positions.size(), space))
            << count << " " << chosen;
      }
    }
  });
}

// A gap of `step` before each position as long as there is room, the rest at the end.
Indices stepping(std::size_t count, std::size_t kept, std::size_t step) {
  Indices positions;
  std::size_t next = 0;
  for (std::size_t j = 0; j < kept; ++j) {
    const std::size_t after = kept - j;
    next = std::min(next + step, count - after);
    positions.push_back(static_cast<std::uint32_t>(next++));
  }
  return positions;
}

TEST(Index, MaxSizeHoldsForTheWorstGaps) {
  for_codecs([](const IndexCodec& codec) {
    for (const std::size_t count : {100, 4096, 70001, 3000000})
      for (const std::size_t kept : {1, 2, 7, 50, 1000, 30000}) {
        if (kept > count) continue;
        const IndexSpace space{.count = count};
        std::vector<std::size_t> steps = {0, count};
        for (unsigned shift = 0; shift < 21; ++shift)
          for (const std::size_t times : {1, 3, 23, 24, 25})
            for (const std::size_t less : {0, 1}) steps.push_back((times << shift) - less);
        for (const std::size_t step : steps) {
          const Indices positions = stepping(count, kept, step);
          ASSERT_LE(codec.size(positions, space), codec.max_size(kept, space))
              << kept << " of " << count << " by " << step;
        }
      }
  });
}

// Callers that know only the most positions there can be rely on it.
TEST(Index, MaxSizeOfFewerIsNoLargerWithinTheSlack) {
  for_codecs([](const IndexCodec& codec) {
    for (const std::size_t count : {1, 2, 17, 100, 513, 4096, 70001, 3000000}) {
      const IndexSpace space{.count = count, .chunk = 64, .per_chunk = 4};
      std::size_t largest = 0;
      for (std::size_t kept = 0; kept <= count; kept += 1 + kept / 500) {
        const std::size_t size = codec.max_size(kept, space);
        ASSERT_LE(largest, size + kIndexSlack) << kept << " of " << count;
        largest = std::max(largest, size);
      }
    }
  });
}

// All at the end, so that one gap is an escape; and as many escapes as there is room for, which is
// the bound itself.
TEST(Index, RiceEscapesLongGaps) {
  const IndexCodec& rice = index_codec("rice");
  const IndexSpace space{.count = 1000000};
  const Indices end = from(990000, 10000);
  const Bytes bytes = written(rice, end, space);
  ASSERT_EQ(rice_bits(end.size(), space.count), 6U);
  EXPECT_EQ(bytes.size(), (24 + 20 + 9999 * 7 + 7) / 8U);
  EXPECT_EQ(as_bits(bytes, 44), plain_rice(990000, 6, 999999));
  const Indices most = stepping(space.count, 10000, 24 << 6);
  EXPECT_EQ(rice.size(most, space), rice.max_size(10000, space));
  EXPECT_EQ(read_back(rice, written(rice, most, space), space, most.size()), most);
}

TEST(Index, TheLargestCountIsRead) {
  const IndexSpace space{.count = 0xffffffffU};
  for (const Indices& positions :
       {Indices{0xfffffffeU}, Indices{0, 0xfffffffeU}, Indices{5, 70000, 0x80000000U, 0xfffffffdU}})
    for (const char* name : {"rice", "fano", "varint", "fixed", "omega"}) {
      const IndexCodec& codec = index_codec(name);
      const Bytes bytes = written(codec, positions, space);
      EXPECT_EQ(bytes.size(), codec.size(positions, space)) << name;
      EXPECT_LE(bytes.size(), codec.max_size(positions.size(), space)) << name;
      EXPECT_EQ(read_back(codec, bytes, space, positions.size()), positions) << name;
    }
  for_codecs([](const IndexCodec& codec) {
    Buffer out;
    EXPECT_THROW(codec.write(Indices{1}, {.count = 1ULL << 32}, out), UsageError);
  });
}

// What is read is what would be written: so damage is refused, or it is another set's only bytes.
void expect_one_spelling(const IndexCodec& codec, ByteView bytes, const IndexSpace& space,
                         std::size_t kept) {
  Indices positions(kept);
  ByteView left;
  try {
    left = codec.read(bytes, space, positions);
  } catch (const DataError&) {
    return;
  }
  ASSERT_EQ(std::ranges::adjacent_find(positions, std::greater_equal<>()), positions.end());
  ASSERT_TRUE(kept == 0 || positions.back() < space.count);
  const Bytes again = written(codec, positions, space);
  ASSERT_TRUE(std::ranges::equal(again, bytes.first(bytes.size() - left.size())));
}

TEST(Index, CutBytesAreRefused) {
  for_codecs([](const IndexCodec& codec) {
    for (const auto& [what, space, positions] : supports()) {
      if (space.count > 1000) continue;
      SCOPED_TRACE(what);
      const Bytes bytes = written(codec, positions, space);
      for (std::size_t size = 0; size < bytes.size(); ++size) {
        Indices back(positions.size());
        EXPECT_THROW(codec.read(ByteView(bytes).first(size), space, back), DataError) << size;
      }
    }
  });
}

TEST(Index, DamagedBytesHaveOneMeaningOrNone) {
  for_codecs([](const IndexCodec& codec) {
    for (const auto& [what, space, positions] : supports()) {
      if (space.count > 200) continue;
      SCOPED_TRACE(what);
      Bytes bytes = written(codec, positions, space);
      for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
        const auto flip = static_cast<std::uint8_t>(1U << (bit % 8));
        bytes[bit / 8] ^= flip;
        expect_one_spelling(codec, bytes, space, positions.size());
        bytes[bit / 8] ^= flip;
      }
    }
  });
}

TEST(Index, RandomBytesHaveOneMeaningOrNone) {
  std::mt19937_64 random(5);
  for_codecs([&](const IndexCodec& codec) {
    for (int trial = 0; trial < 30000; ++trial) {
      const std::size_t count = random() % (random() % 2 == 0 ? 20 : 3000);
      const std::size_t kept = random() % 12, chunk = random() % 3 == 0 ? random() % 20 : 0;
      Bytes bytes(kept / 8 + 1 + random() % 20);
      const std::uint64_t kind = random() % 3;  // dense, sparse or any bits
      for (auto& byte : bytes)
        byte = static_cast<std::uint8_t>(kind == 0   ? random() | random()
                                         : kind == 1 ? random() & random() & random()
                                                     : random());
      expect_one_spelling(codec, bytes, {count, chunk, random() % 4}, kept);
    }
  });
}

// Each row: a codec, how many positions of how many, and bits that only a careless reader takes.
TEST(Index, OtherSpellingsAreRefused) {
  struct Row {
    const char *codec, *why;
    std::size_t kept, count;
    std::string bits;
  };
  const std::string ones(24, '1');
  for (const Row& row : std::vector<Row>{
           {"rice", "position 8 of 8", 1, 8, plain_rice(8, rice_bits(1, 8), 15)},
           {"rice", "second beyond the end", 2, 2, "010"},
           {"rice", "padding", 2, 2, "001"},
           {"rice", "escape of 23", 60, 64, ones + "111010"},
           {"rice", "escape cut off", 60, 64, ones + "01"},
           {"fano", "low bits descend", 2, 8,
            "11000000"
            "1100"},
           {"fano", "the same position twice", 2, 8,
            "10100000"
            "1100"},
           {"fano", "three ones for two", 2, 8,
            "00000000"
            "1101"},
           {"fano", "one one for two", 2, 8,
            "00000000"
            "0100"},
           {"fano", "low padding", 2, 8,
            "00001000"
            "1010"},
           {"fano", "high padding", 2, 8,
            "00000000"
            "100001"},
           {"fano", "position 7 of 6", 1, 6,
            "11000000"
            "01"},
           {"bitmap", "three ones for two", 2, 9, "111"},
           {"bitmap", "a one in the padding", 2, 9, "1000000000100000"},
           {"bitmap", "no ones", 1, 8, "00000000"},
           {"varint", "0 in two bytes", 1, 8, "0000000100000000"},
           {"varint", "0 in two bytes of four", 1, 8, "00000001000000000000000000000000"},
           {"varint", "position 8 of 8", 1, 8, "00010000"},
           {"fixed", "descending", 2, 8, "100000"},
           {"fixed", "twice", 2, 8, "100100"},
           {"fixed", "position 7 of 6", 1, 6, "111"},
           {"fixed", "padding", 1, 6,
            "1110"
            "1"},
           {"omega", "position 8 of 8", 1, 8, plain_omega(9)},
           {"omega", "padding", 1, 8, "01"},
           {"omega", "above 32 bits", 1, 8, "10100100000" + std::string(60, '1')},
           {"omega", "above 32 bits", 1, 8, std::string(100, '1')}}) {
    SCOPED_TRACE(std::string(row.codec) + ": " + row.why);
    const Bytes bytes = from_bits(row.bits);
    Indices positions(row.kept);
    EXPECT_THROW(index_codec(row.codec).read(bytes, {.count = row.count}, positions), DataError);
  }
  for_codecs([](const IndexCodec& codec) {
    const Bytes zeros(100);
    Indices more(9);
    EXPECT_THROW(codec.read(zeros, {.count = 8}, more), DataError);
    EXPECT_THROW(codec.read(zeros, {.count = 0}, more), DataError);
  });
}

TEST(Index, PositionsOutsideTheirChunkAreNotWritten) {
  Buffer out;
  EXPECT_THROW(index_codec("fixed").write(Indices{0, 1}, {8, 4, 1}, out), std::logic_error);
}

TEST(Index, TheSmallestIsTheMinimumOverAll) {
  for (const auto& [what, space, positions] : supports()) {
    SCOPED_TRACE(what);
    const IndexCodec& best = smallest_index(positions, space);
    for (const IndexCodec& codec : index_codecs()) {
      const std::size_t size = codec.size(positions, space);
      EXPECT_LE(best.size(positions, space), size);
      EXPECT_TRUE(size > best.size(positions, space) || best.tag <= codec.tag);
    }
  }
  EXPECT_EQ(smallest_index(at_random(100000, 0.01, 1), {.count = 100000}).name, "rice");
  EXPECT_EQ(smallest_index(clustered(100000, 1), {.count = 100000}).name, "omega");
}

TEST(Index, LayoutOfTheBytes) {
  const IndexSpace space{.count = 20};
  const Indices positions = {1, 2, 9, 19};
  EXPECT_EQ(written(index_codec("bitmap"), positions, space), (Bytes{0b110, 0b10, 0b1000}));
  EXPECT_EQ(written(index_codec("varint"), positions, space), (Bytes{1, 0, 6, 9}));
  EXPECT_EQ(written(index_codec("varint"), {300}, {.count = 301}), (Bytes{0xac, 2}));
  EXPECT_EQ(written(index_codec("fixed"), positions, space), from_bits("10000"
                                                                       "01000"
                                                                       "10010"
                                                                       "11001"));
  // Two low bits each, then 4 + (19 >> 2) bits of which 0+0, 0+1, 2+2 and 4+3 are set.
  EXPECT_EQ(written(index_codec("fano"), positions, space), from_bits("10011011"
                                                                      "11001001"));
  EXPECT_EQ(written(index_codec("omega"), positions, space),
            from_bits(plain_omega(2) + plain_omega(1) + plain_omega(7) + plain_omega(10)));
  // One of each 8, the last chunk of 4: three bits each.
  EXPECT_EQ(written(index_codec("fixed"), {7, 9, 18}, {20, 8, 1}), from_bits("111"
                                                                             "100"
                                                                             "010"));
}

TEST(Rice, PrintedStrings) {
  const auto bits_of = [](const Indices& positions, unsigned bits) {
    const Rice code(bits, 1000);
    Buffer out;
    BitWriter writer(out);
    std::size_t length = 0;
    std::uint32_t next = 0;
    for (const std::uint32_t position : positions) {
      code.put(position - next, writer);
      length += code.length(position - next);
      next = position + 1;
    }
    writer.finish();
    return as_bits(out.view(), length);
  };
  EXPECT_EQ(bits_of({0, 1, 9, 40}, 3), "0000000001111110110");
  EXPECT_EQ(bits_of({5, 63, 64, 200}, 6), "000010101110010000000110000111");
  // The same through the codec: 4 of 41 want b = 3.
  ASSERT_EQ(rice_bits(4, 41), 3U);
  EXPECT_EQ(written(index_codec("rice"), {0, 1, 9, 40}, {.count = 41}),
            from_bits("0000000001111110110"));
}

TEST(Rice, FastAndPlainWriteTheSameBits) {
  for (const auto& [what, space, positions] : supports()) {
    SCOPED_TRACE(what);
    if (positions.empty()) continue;
    const unsigned bits = rice_bits(positions.size(), space.count);
    const std::size_t largest = space.count - 1;
    EXPECT_EQ(written(index_codec("rice"), positions, space),
              from_bits(plain_gaps(
                  positions, [&](std::uint64_t gap) { return plain_rice(gap, bits, largest); })));
  }
}

TEST(Rice, EveryParameterRoundTrips) {
  std::mt19937_64 random(7);
  for (unsigned bits = 0; bits < 32; ++bits)
    for (const std::uint32_t largest : {0U, 1U, 1000U, 0x7fffffffU, 0xffffffffU}) {
      const Rice code(bits, largest);
      Indices values = {0, largest};
      for (int i = 0; i < 300; ++i)
        values.push_back(
            static_cast<std::uint32_t>((random() >> 32 >> random() % 32) % (largest + 1ULL)));
      for (const std::uint64_t ones : {23, 24})
        if (ones << bits <= largest) values.push_back(static_cast<std::uint32_t>(ones << bits));
      Buffer out;
      BitWriter writer(out);
      std::string plain;
      std::size_t length = 0;
      for (const std::uint32_t value : values) {
        code.put(value, writer);
        length += code.length(value);
        plain += plain_rice(value, bits, largest);
      }
      writer.finish();
      ASSERT_EQ(length, plain.size());
      ASSERT_EQ(as_bits(out.view(), length), plain);
      BitReader reader(out.view());
      for (const std::uint32_t value : values) ASSERT_EQ(code.get(reader), value);
      EXPECT_TRUE(reader.rest().empty());
    }
}

// The paper's formula, which is not used because its last bit is libm's.
unsigned formula(long double p) {
  const long double golden = (std::sqrt(5.0L) - 1) / 2;
  const long double bits = 1 + std::floor(std::log2(std::log(golden) / std::log1p(-p)));
  return bits > 0 ? static_cast<unsigned>(bits) : 0;
}

TEST(Rice, BitsFollowTheFormula) {
  for (std::size_t count = 1; count <= 700; ++count)
    for (std::size_t kept = 1; kept <= count; ++kept)
      ASSERT_EQ(rice_bits(kept, count),
                kept == count ? 0 : formula(static_cast<long double>(kept) / count))
          << kept << " of " << count;
  std::mt19937_64 random(3);
  for (int i = 0; i < 300000; ++i) {
    const std::uint64_t count = 2 + (random() >> 32 >> random() % 31);
    const std::uint64_t kept = 1 + (random() >> 32 >> random() % 32) % (count - 1);
    ASSERT_EQ(rice_bits(kept, count), formula(static_cast<long double>(kept) / count))
        << kept << " of " << count;
  }
  EXPECT_EQ(rice_bits(1, 0xffffffffU), 31U);
}

struct Row {
  double p;
  unsigned bits;
  double expected;
};

// p, b* and bits per position of algorithm 2's table.
const std::vector<Row> kGolomb = {{0.1, 3, 4.7558},     {0.0625, 3, 5.4797}, {0.05, 4, 5.7861},
                                  {0.02, 5, 7.1003},    {0.01, 6, 8.1079},   {0.005, 7, 9.1117},
                                  {0.0025, 8, 10.1136}, {0.001, 9, 11.4947}, {0.0001, 13, 14.7882}};

// Ones before the zero are geometric: P(more than n) = s^(n+1) for s = (1 - p)^(2^b). So a code has
// a mean of b + 1 / (1 - s) bits and a variance of s / (1 - s)^2.
TEST(Rice, BitsPerPositionAreThoseExpected) {
  for (const auto& [p, bits, expected] : kGolomb) {
    SCOPED_TRACE(p);
    const auto count = static_cast<std::size_t>(3e5 / p);
    EXPECT_EQ(rice_bits(static_cast<std::size_t>(static_cast<double>(count) * p), count), bits);
    const double s = std::pow(1 - p, std::exp2(bits));
    const double mean = bits + 1 / (1 - s);
    EXPECT_NEAR(mean, expected, 5e-5);
    // Gaps drawn by inversion: a support of Bernoulli(p) without visiting every entry.
    std::mt19937_64 random(11);
    std::geometric_distribution<std::uint32_t> gap(p);
    const Rice code(bits, 0xffffffffU);
    const std::size_t kept = 300000;
    double total = 0;
    for (std::size_t j = 0; j < kept; ++j) total += code.length(gap(random));
    const double sigma = std::sqrt(s) / (1 - s) / std::sqrt(static_cast<double>(kept));
    EXPECT_NEAR(total / static_cast<double>(kept), mean, 5 * sigma);
  }
}

// The same of whole supports, through the codec. Kept is a draw too, so bits per position are a
// ratio; and the parameter must come out the same from what was drawn.
TEST(Rice, WholeSupportsTakeTheExpectedBytes) {
  for (const auto& [p, bits, expected] : kGolomb) {
    if (p < 0.002) continue;
    SCOPED_TRACE(p);
    const IndexSpace space{.count = 2000000};
    const Indices positions = at_random(space.count, p, 21);
    const auto kept = static_cast<double>(positions.size());
    ASSERT_EQ(rice_bits(positions.size(), space.count), bits);
    const double s = std::pow(1 - p, std::exp2(bits));
    const double sigma = std::sqrt(s * kept) / (1 - s);
    const double size = static_cast<double>(index_codec("rice").size(positions, space)) * 8;
    EXPECT_NEAR(size, (bits + 1 / (1 - s)) * kept, 5 * sigma + 8);
  }
}

TEST(Rice, ChunksOfSparseLoCo) {
  const IndexSpace space{.count = 4096 * 500, .chunk = 4096, .per_chunk = 64};
  const Indices positions = spread(space, 8);
  ASSERT_EQ(positions.size(), space.evenly());
  EXPECT_EQ(rice_bits(positions.size(), space.count), 5U);
  EXPECT_EQ(index_codec("fixed").size(positions, space) * 8, positions.size() * 12);
  const auto bits = static_cast<double>(index_codec("rice").size(positions, space)) * 8;
  EXPECT_NEAR(bits / static_cast<double>(positions.size()), 7.526, 0.03);
}

TEST(Omega, PrintedStringsAndLengths) {
  const auto bits_of = [](std::uint32_t number) {
    Buffer out;
    BitWriter writer(out);
    put_omega(number, writer);
    writer.finish();
    return as_bits(out.view(), omega_length(number));
  };
  EXPECT_EQ(bits_of(1), "0");
  EXPECT_EQ(bits_of(4), "101000");
  EXPECT_EQ(bits_of(16), "10100100000");
  const std::vector<std::array<std::uint32_t, 3>> lengths = {{1, 1, 1},
                                                             {2, 3, 3},
                                                             {4, 7, 6},
                                                             {8, 15, 7},
                                                             {16, 31, 11},
                                                             {32, 63, 12},
                                                             {64, 127, 13},
                                                             {128, 255, 14},
                                                             {256, 511, 16},
                                                             {512, 1023, 17},
                                                             {65535, 65535, 23},
                                                             {65536, 65536, 28},
                                                             {1000000, 1000000, 31}};
  for (const auto& [first, last, length] : lengths)
    for (std::uint32_t number = first; number <= last; ++number)
      ASSERT_EQ(omega_length(number), length) << number;
}

TEST(Omega, FastAndPlainWriteTheSameBits) {
  std::mt19937_64 random(4);
  Indices numbers = from(1, 5000);
  for (unsigned bit = 0; bit < 32; ++bit)
    for (const std::uint64_t delta : {-1, 0, 1})
      if (const std::uint64_t number = (1ULL << bit) + delta; number > 0)
        numbers.push_back(static_cast<std::uint32_t>(number));
  for (int i = 0; i < 5000; ++i)
    numbers.push_back(static_cast<std::uint32_t>(random() >> 32 >> random() % 32) | 1U);
  numbers.push_back(0xffffffffU);
  Buffer out;
  BitWriter writer(out);
  std::string plain;
  for (const std::uint32_t number : numbers) {
    put_omega(number, writer);
    ASSERT_EQ(omega_length(number), plain_omega(number).size());
    plain += plain_omega(number);
  }
  writer.finish();
  EXPECT_TRUE(as_bits(out.view(), plain.size()) == plain);
  BitReader reader(out.view());
  for (const std::uint32_t number : numbers) ASSERT_EQ(get_omega(reader), number);
  EXPECT_TRUE(reader.rest().empty());
  for (const auto& [what, space, positions] : supports())
    EXPECT_EQ(
        written(index_codec("omega"), positions, space),
        from_bits(plain_gaps(positions, [](std::uint64_t gap) { return plain_omega(gap + 1); })))
        << what;
}

TEST(Omega, NumbersAbove32BitsAndCutCodesAreRefused) {
  const auto get = [](const std::string& bits) {
    const Bytes bytes = from_bits(bits);
    BitReader reader(bytes);
    return get_omega(reader);
  };
  EXPECT_EQ(get(plain_omega(0xffffffffU)), 0xffffffffU);
  EXPECT_THROW(get(plain_omega(1ULL << 32)), DataError);
  EXPECT_THROW(get(plain_omega(~0ULL)), DataError);
  EXPECT_THROW(get(std::string(64, '1')), DataError);
  EXPECT_THROW(get(""), DataError);
  EXPECT_THROW(get(plain_omega(0xffffffffU).substr(0, 40)), DataError);
}

TEST(Bits, PeekingAndTakingMix) {
  std::mt19937_64 random(9);
  Bytes bytes(4001);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  const std::string text = as_bits(bytes, bytes.size() * 8);
  BitReader reader(bytes);
  for (std::size_t at = 0;;) {
    const auto width = static_cast<unsigned>(random() % 57);
    const bool peeks = random() % 3 != 0;
    const std::uint64_t peeked = (peeks ? reader.peek() : 0) & ((1ULL << width) - 1);
    if (at + width > text.size()) {
      EXPECT_THROW(reader.skip(width), DataError);
      break;
    }
    if (peeks) reader.skip(width);
    std::string next = digits(peeks ? peeked : reader.get(width), width);
    std::ranges::reverse(next);
    ASSERT_EQ(next, text.substr(at, width));
    at += width;
    ASSERT_EQ(reader.bits_left(), text.size() - at);
  }
}

TEST(Bits, RestLeavesWholeBytes) {
  const Bytes bytes = {0b101, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (const unsigned width : {3U, 8U, 11U}) {
    BitReader reader(bytes);
    reader.peek();
    reader.skip(width);
    EXPECT_EQ(reader.rest().size(), width > 8 ? 8U : 9U);
    EXPECT_EQ(reader.rest().data() + reader.rest().size(), bytes.data() + bytes.size());
  }
  BitReader reader(bytes);
  reader.skip(0);
  reader.get(2);
  EXPECT_THROW(reader.rest(), DataError);
}

// Positions so dense that their codes are a bitmap, with ways between them that are escaped, or
// nearly, wherever these lie in a word; and what a code by code writer makes of them.
TEST(Index, RiceCodesWithoutLowBitsEqualTheirPlainTwin) {
  const IndexCodec& rice = index_codec("rice");
  for (const std::size_t count : {3, 60, 64, 500, 5000, 20000})
    for (const std::uint32_t gap : {0U, 1U, 22U, 23U, 24U, 25U, 47U, 56U, 57U, 70U, 200U})
      for (std::uint64_t seed = 0; seed < 6; ++seed) {
        std::mt19937_64 random(seed);
        Indices positions;
        for (std::size_t at = random() % 3; at < count; at += 1 + random() % 10 / 9) {
          positions.push_back(static_cast<std::uint32_t>(at));
          if (seed > 0 && random() % 300 == 0) at += gap;
        }
        const IndexSpace space{.count = count};
        if (rice_bits(positions.size(), count) > 0) continue;
        const Rice code(0, static_cast<std::uint32_t>(count - 1));
        Buffer out;
        BitWriter bits(out);
        std::uint32_t next = 0;
        for (const std::uint32_t position : positions) {
          code.put(position - next, bits);
          next = position + 1;
        }
        bits.finish();
        const Bytes bytes = written(rice, positions, space);
        ASSERT_EQ(bytes, Bytes(out.view().begin(), out.view().end())) << count << " " << gap;
        ASSERT_EQ(read_back(rice, bytes, space, positions.size()), positions);
        ASSERT_EQ(rice.size(positions, space), bytes.size());
      }
}

TEST(Bits, ReversedTurnsAField) {
  EXPECT_EQ(reversed(0, 0), 0U);
  EXPECT_EQ(reversed(0b110, 3), 0b011U);
  EXPECT_EQ(reversed(1, 32), 0x80000000U);
  EXPECT_EQ(reversed(0x12345678, 32), 0x1e6a2c48U);
}

}  // namespace
}  // namespace laconic::testing
