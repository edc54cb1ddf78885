// In steady state a transfer allocates nothing.
#include <atomic>
#include <cstdlib>
#include <new>

#include "laconic/transports/modelled.h"
#include "tests/ranks.h"

namespace {
std::atomic<std::size_t> allocations = 0;
}

// Not inline, or g++ sees free where it expects delete.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace laconic::testing {
namespace {

// Two ranks, driven by one thread: attempts, transfers with lengths known and unknown.
void expect_nothing_allocated(Ends ends) {
  const std::vector<std::uint8_t> out(70'000, 5);
  std::vector<std::uint8_t> exact(70'000);
  Buffer in;
  Transfer transfers[2];
  transfers[0].sends = {{1, out}, {1, ByteView(out).first(9)}};
  transfers[0].receives = {Receive::exactly(1, exact)};
  transfers[1].sends = {{0, out}};
  transfers[1].receives = {Receive::sized(0, in, out.size()), Receive::sized(0, in, out.size())};
  std::size_t before = 0;
  for (int step = 0; step < 20; ++step) {
    if (step == 5) before = allocations;
    const std::uint64_t attempt = ends[0]->open_attempt();
    ASSERT_EQ(ends[1]->open_attempt(), attempt);
    for (std::size_t rank : {0U, 1U}) ends[rank]->start({.attempt = attempt}, transfers[rank]);
    while (transfers[0].flies() || transfers[1].flies())
      for (std::size_t rank : {0U, 1U})
        if (transfers[rank].flies()) ends[rank]->test(transfers[rank]);
    for (std::size_t rank : {0U, 1U}) ends[rank]->close_attempt(attempt);
  }
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(exact, out);
}

TEST(Allocation, ThreadsAllocateNothingInSteadyState) {
  expect_nothing_allocated(make_thread_transports(2));
}

TEST(Allocation, NorDoesAModelledLink) {
  Ends ends = make_thread_transports(2);
  for (auto& end : ends) end = std::make_unique<ModelledTransport>(std::move(end), Link{});
  expect_nothing_allocated(std::move(ends));
}

}  // namespace
}  // namespace laconic::testing
