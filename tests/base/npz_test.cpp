// .npz archives: what is written is read, and nothing else does harm.
#include "laconic/base/npz.h"

#include "tests/support.h"

namespace laconic {
namespace {

using testing::message_of;

Buffer npy_of(const std::vector<std::uint64_t>& shape, const std::vector<float>& values) {
  Buffer npy;
  append_npy(NpyDtype::float32, shape, values, npy);
  return npy;
}

// Two arrays, stored.
Buffer archive() {
  NpzWriter writer;
  writer.add("conv.weight", npy_of({2, 3}, {1, 2, 3, 4, 5, 6}).view());
  writer.add("conv.bias", npy_of({2}, {-1, 0.5F}).view());
  return writer.finish();
}

// Where the directory's entry and the end record of an archive of one array lie.
struct Places {
  std::size_t entry, end;
};

Places places_in(ByteView zip) {
  const std::size_t end = zip.size() - 22;
  return {load<std::uint32_t>(zip.data() + end + 16), end};
}

// One array whose bytes are a deflate stream of one stored block.
Buffer deflated(ByteView npy) {
  Buffer stream;
  stream.append_number(std::uint8_t{1});  // the last block, stored
  stream.append_number(static_cast<std::uint16_t>(npy.size()));
  stream.append_number(static_cast<std::uint16_t>(~npy.size()));
  stream.append(npy);
  NpzWriter plain, packed;
  plain.add("x", npy);
  packed.add("x", stream.view());
  const Buffer stored = plain.finish();
  Buffer zip = packed.finish();
  const std::size_t from = places_in(stored.view()).entry, to = places_in(zip.view()).entry;
  store(zip.data() + to + 10, std::uint16_t{8});
  store(zip.data() + to + 16, load<std::uint32_t>(stored.data() + from + 16));  // checksum
  store(zip.data() + to + 24, static_cast<std::uint32_t>(npy.size()));
  return zip;
}

std::string refusal(ByteView zip, const NpzLimits& limits = {}) {
  return message_of<DataError>([&] { read_npz(zip, limits); });
}

TEST(Npz, WhatIsWrittenIsRead) {
  const auto arrays = read_npz(archive().view());
  ASSERT_EQ(arrays.size(), 2U);
  EXPECT_EQ(arrays[0].name, "conv.weight");
  EXPECT_EQ(arrays[0].array.shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(arrays[0].array.values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(arrays[1].name, "conv.bias");
  EXPECT_EQ(arrays[1].array.values, (std::vector<float>{-1, 0.5F}));
}

TEST(Npz, AnArchiveMayBeEmpty) { EXPECT_TRUE(read_npz(NpzWriter().finish().view()).empty()); }

TEST(Npz, DeflatedArraysAreRead) {
  const auto arrays = read_npz(deflated(npy_of({3}, {1, 2, 3}).view()).view());
  ASSERT_EQ(arrays.size(), 1U);
  EXPECT_EQ(arrays[0].array.values, (std::vector<float>{1, 2, 3}));
}

TEST(Npz, ACommentMayFollow) {
  Buffer zip = archive();
  store(zip.data() + zip.size() - 2, std::uint16_t{5});
  zip.append(as_bytes("hello"));
  EXPECT_EQ(read_npz(zip.view()).size(), 2U);
}

TEST(Npz, EveryTruncationIsRefused) {
  const Buffer zip = archive();
  for (std::size_t size = 0; size < zip.size(); ++size)
    EXPECT_THROW(read_npz(zip.view().first(size)), DataError) << size;
}

// Names, dates and the like may change unseen; entries may not.
TEST(Npz, NoFlippedBitChangesAnEntry) {
  for (const bool pack : {false, true}) {
    const Buffer npy = npy_of({3}, {1, 2, 3});
    NpzWriter writer;
    writer.add("x", npy.view());
    Buffer zip = pack ? deflated(npy.view()) : writer.finish();
    for (std::size_t bit = 0; bit < 8 * zip.size(); ++bit) {
      const auto flip = [&] { zip.data()[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8); };
      flip();
      try {
        for (const NpzArray& entry : read_npz(zip.view()))
          EXPECT_EQ(entry.array.values, (std::vector<float>{1, 2, 3})) << bit;
      } catch (const Error&) {
      }
      flip();
    }
  }
}

TEST(Npz, RandomBytesAreRefused) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    Buffer bytes;
    for (std::size_t n = random() % 300; n > 0; --n)
      bytes.append_number(static_cast<std::uint8_t>(random()));
    bytes.append(archive().view(places_in(archive().view()).end));  // a right end
    EXPECT_THROW(read_npz(bytes.view()), DataError);
  }
}

TEST(Npz, WhatIsNotReadIsSaid) {
  const auto patched = [](std::size_t at, auto value) {
    Buffer zip = deflated(npy_of({3}, {1, 2, 3}).view());
    store(zip.data() + places_in(zip.view()).entry + at, value);
    return refusal(zip.view());
  };
  EXPECT_NE(patched(8, std::uint16_t{1}).find("encrypted"), std::string::npos);
  EXPECT_NE(patched(10, std::uint16_t{12}).find("method 12"), std::string::npos);
  EXPECT_NE(patched(16, std::uint32_t{0}).find("checksum"), std::string::npos);
  EXPECT_NE(patched(24, std::uint32_t{100}).find("inflate"), std::string::npos);
  EXPECT_NE(patched(24, std::uint32_t{0xfffffffe}).find("inflate"), std::string::npos);
  EXPECT_NE(patched(24, std::uint32_t{0xffffffff}).find("4 GiB"), std::string::npos);
  EXPECT_NE(patched(42, std::uint32_t{7}).find("not where"), std::string::npos);
  EXPECT_NE(patched(42, std::uint32_t{0x7fffffff}).find("beyond the end"), std::string::npos);
  EXPECT_NE(patched(49, 'z').find("does not end in .npy"), std::string::npos);
}

TEST(Npz, LimitsHold) {
  const std::size_t size =
      npy_of({2, 3}, std::vector<float>(6)).size() + npy_of({2}, {0, 0}).size();
  EXPECT_EQ(read_npz(archive().view(), {.max_bytes = size}).size(), 2U);
  EXPECT_NE(refusal(archive().view(), {.max_bytes = size - 1}).find("allowed"), std::string::npos);
}

TEST(Npz, MistakesInAnArrayNameIt) {
  NpzWriter writer;
  writer.add("fc", as_bytes("no array"));
  const std::string message = refusal(writer.finish().view());
  EXPECT_EQ(message.find("array 'fc': not a .npy file"), 0U) << message;
}

}  // namespace
}  // namespace laconic
