// Floats at any address, against their plain twins on every instruction set.
#include "laconic/kernels/float_bytes.h"

#include <cmath>
#include <cstring>

#include "tests/kernels/inputs.h"

namespace laconic::testing {
namespace {

TEST(FloatBytes, AreAddedAsTheirPlainTwinDoes) {
  for_inputs([](std::span<const float> x) {
    const auto start = gaussian(x.size(), 1, 3);
    std::vector<float> expected = start;
    for (std::size_t i = 0; i < x.size(); ++i) expected[i] += 0.3F * x[i];
    for (const std::size_t offset : {0, 1, 3}) {
      std::vector<std::uint8_t> bytes(offset + x.size_bytes());
      if (!x.empty()) std::memcpy(bytes.data() + offset, x.data(), x.size_bytes());
      on_every_cpu([&](const std::string& cpu) {
        std::vector<float> y = start;
        kernels::add_floats(bytes.data() + offset, 0.3F, y);
        ASSERT_TRUE(y.empty() || std::memcmp(y.data(), expected.data(), x.size_bytes()) == 0)
            << cpu;
      });
    }
  });
}

TEST(FloatBytes, AreFiniteUnlessOneIsNot) {
  for (const std::size_t count : {0, 1, 63, 64, 65, 200, 4099}) {
    const auto x = gaussian(count, kMax / 16);
    std::vector<std::uint8_t> bytes(1 + count * sizeof(float));
    if (count > 0) std::memcpy(bytes.data() + 1, x.data(), count * sizeof(float));
    const ByteView view = ByteView(bytes).subspan(1);
    for (const std::size_t bad : {std::size_t{0}, count / 2, count - 1}) {
      if (count == 0) continue;
      for (const float value : {INFINITY, -INFINITY, NAN, -NAN}) {
        std::memcpy(bytes.data() + 1 + bad * sizeof(float), &value, sizeof value);
        on_every_cpu([&](const std::string& cpu) {
          ASSERT_FALSE(kernels::finite_floats(view)) << cpu << ", " << bad << " of " << count;
        });
        std::memcpy(bytes.data() + 1 + bad * sizeof(float), &x[bad], sizeof value);
      }
    }
    on_every_cpu([&](const std::string& cpu) {
      ASSERT_TRUE(kernels::finite_floats(view)) << cpu << ", " << count;
    });
  }
}

}  // namespace
}  // namespace laconic::testing
