// Steady state allocates nothing: operator new is counted in this program.
#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/support.h"

namespace {
std::atomic<std::size_t> allocations = 0;
}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, std::align_val_t align) {
  ++allocations;
  const auto unit = static_cast<std::size_t>(align);
  if (void* memory = std::aligned_alloc(unit, (size + unit - 1) / unit * unit)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace laconic::testing {
namespace {

class Steady : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Registry, Steady, ::testing::ValuesIn(example_specs()),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

TEST_P(Steady, EncodeOpenAndAddAllocateNothing) {
  const Operator op = parse_operator(GetParam());
  for (const unsigned threads : {1U, 2U}) {
    Scratch scratch(threads);
    Buffer out;
    Hint hint;
    Decoder decoder;
    const auto fresh = made_up(100000), kept = gaussian(100000);
    std::vector<float> left(100000), y(100000);
    const Source source{
        .fresh = std::span(fresh), .kept = std::span(kept), .left = std::span(left), .hint = &hint};
    const auto step = [&] {
      out.clear();
      EXPECT_TRUE(op.encode(source, out, make_keys(1, 2, 3), scratch).finite);
      op.open(out.view(), y.size(), make_keys(1, 2, 3), scratch, decoder);
      decoder.assign(0, y.size(), 0.5F, y.data());
      op.add(out.view(), 0.5F, y, make_keys(1, 2, 3), scratch);
    };
    for (int i = 0; i < 3; ++i) step();  // the second has a hint
    const std::size_t before = allocations;
    for (int i = 0; i < 3; ++i) step();
    EXPECT_EQ(allocations - before, 0U) << threads << " threads";
  }
}

}  // namespace
}  // namespace laconic::testing
