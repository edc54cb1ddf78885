// Bytes cut in two, against their plain twin on every instruction set.
#include "laconic/kernels/split_bytes.h"

#include "tests/kernels/inputs.h"

namespace laconic::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

struct Parts {
  Bytes low, above;
};

Parts split_plainly(const Bytes& bytes, kernels::Split cut) {
  Parts parts{Bytes((bytes.size() * cut.low + 7) / 8),
              Bytes(cut.paired ? (bytes.size() + 1) / 2 : bytes.size())};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (unsigned bit = 0; bit < cut.low; ++bit)
      if (const std::size_t at = i * cut.low + bit; bytes[i] >> bit & 1)
        parts.low[at / 8] |= static_cast<std::uint8_t>(1U << at % 8);
    const unsigned high = bytes[i] >> cut.low;
    if (cut.paired)
      parts.above[i / 2] |= static_cast<std::uint8_t>(high << (i % 2 * 4));
    else
      parts.above[i] = static_cast<std::uint8_t>(high);
  }
  return parts;
}

TEST(SplitBytes, AreSplitAndJoinedAsTheirPlainTwin) {
  std::mt19937_64 random(1);
  for (const std::size_t count : {0, 1, 7, 8, 63, 64, 65, 127, 200, 1000, 4096, 4099})
    for (unsigned low = 0; low < 8; ++low)
      for (const bool paired : {false, true}) {
        const unsigned most = paired ? std::min(255U, (16U << low) - 1) : 255;
        Bytes bytes(count);
        for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random() % (most + 1));
        const Parts expected = split_plainly(bytes, {low, paired});
        const auto largest =
            static_cast<std::uint8_t>(count == 0 ? 0 : *std::ranges::max_element(bytes) >> low);
        on_every_cpu([&](const std::string& cpu) {
          SCOPED_TRACE(cpu + ", " + std::to_string(count) + ", " + std::to_string(low) + " bits");
          // Exactly as long as they must be: nothing behind them is read or written.
          Parts parts{Bytes(expected.low.size() + 1, 77), Bytes(expected.above.size() + 1, 77)};
          ASSERT_EQ(kernels::split_bytes(bytes.data(), count, {low, paired}, parts.low.data(),
                                         parts.above.data()),
                    largest);
          for (Bytes* part : {&parts.low, &parts.above}) {
            ASSERT_EQ(part->back(), 77);
            part->pop_back();
            part->shrink_to_fit();
          }
          ASSERT_EQ(parts.low, expected.low);
          ASSERT_EQ(parts.above, expected.above);
          Bytes joined(count + 1, 77);
          ASSERT_EQ(kernels::join_bytes(parts.low.data(), parts.above.data(), count, {low, paired},
                                        joined.data()),
                    largest);
          ASSERT_EQ(joined.back(), 77);
          joined.pop_back();
          ASSERT_EQ(joined, bytes);
          if (low == 0) return;
          for (auto& byte : joined) byte &= static_cast<std::uint8_t>((1U << low) - 1);
          Bytes closed(expected.low.size() + 1, 77), opened(count + 1, 77);
          kernels::close_bits(joined.data(), count, low, closed.data());
          kernels::open_bits(expected.low.data(), count, low, opened.data());
          ASSERT_TRUE(closed.back() == 77 && opened.back() == 77);
          closed.pop_back(), opened.pop_back();
          ASSERT_EQ(closed, expected.low);
          ASSERT_EQ(opened, joined);
        });
      }
}

// What does not fit is told by the largest: the parts beside it need not be right.
TEST(SplitBytes, PartsThatDoNotFitAreTold) {
  for (const std::size_t count : {5, 64, 1000})
    for (std::size_t at = 0; at < count; at += 7)
      on_every_cpu([&](const std::string& cpu) {
        Bytes bytes(count, 9), low(count), above(count);
        bytes[at] = 200;
        ASSERT_EQ(kernels::split_bytes(bytes.data(), count, {2, true}, low.data(), above.data()),
                  200 >> 2)
            << cpu;
        Bytes high(count, 3);
        high[at] = 70;
        ASSERT_EQ(kernels::join_bytes(low.data(), high.data(), count, {2, false}, bytes.data()), 70)
            << cpu;
      });
}

}  // namespace
}  // namespace laconic::testing
