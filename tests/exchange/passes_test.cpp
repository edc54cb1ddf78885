// How often a step goes over memory: reads and writes of arrays as large as the model, counted page
// by page. Pages of such arrays are closed; touching one opens it, is counted, and closes the one
// that was opened longest ago. So every sweep over an array opens each of its pages once for
// reading or writing, and once more where it writes to what it has read.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/exchange/support.h"

namespace {

constexpr std::size_t kPage = 4096, kCount = std::size_t{1} << 21;  // floats of the model
constexpr std::size_t kLarge = kCount * sizeof(float) * 9 / 10;     // bytes of an array that counts
constexpr std::size_t kOpen = 32;                                   // pages open at a time

// One arena for all that counts. Only one thread uses what lies in it.
struct Arena {
  std::uint8_t* begin = nullptr;
  std::size_t size = std::size_t{1} << 30, used = 0;
  std::array<std::uint8_t*, kOpen> open{};
  std::size_t next = 0;
  std::atomic<bool> counting = false;
  std::size_t reads = 0, writes = 0;

  bool has(const void* p) const { return begin && p >= begin && p < begin + size; }
};
Arena arena;
thread_local bool tracked = false;  // whether this thread's large arrays lie there

void touched(int, siginfo_t* info, void* context) {
  auto* page = reinterpret_cast<std::uint8_t*>(reinterpret_cast<std::uintptr_t>(info->si_addr) /
                                               kPage * kPage);
  if (!arena.has(page)) {
    signal(SIGSEGV, SIG_DFL);  // a real one
    return;
  }
  const auto* machine = static_cast<const ucontext_t*>(context);
  const bool write = (machine->uc_mcontext.gregs[REG_ERR] & 2) != 0;
  ++(write ? arena.writes : arena.reads);
  mprotect(page, kPage, write ? PROT_READ | PROT_WRITE : PROT_READ);
  for (const std::uint8_t* known : arena.open)
    if (known == page) return;
  auto*& oldest = arena.open[arena.next++ % kOpen];
  if (oldest) mprotect(oldest, kPage, PROT_NONE);
  oldest = page;
}

void start_counting() {
  struct sigaction action {};
  action.sa_sigaction = touched;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  mprotect(arena.begin, arena.size, PROT_NONE);
  arena.open = {};
  arena.reads = arena.writes = 0;
}

void stop_counting() { mprotect(arena.begin, arena.size, PROT_READ | PROT_WRITE); }

void* allocate(std::size_t size) {
  if (tracked && size >= kLarge) {
    if (!arena.begin)
      arena.begin = static_cast<std::uint8_t*>(
          mmap(nullptr, arena.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    void* p = arena.begin + arena.used;
    arena.used += (size + kPage - 1) / kPage * kPage;
    if (arena.used > arena.size) std::abort();
    return p;
  }
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}

void release(void* p) {
  if (!arena.has(p)) std::free(p);
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void operator delete(void* p) noexcept { release(p); }
void operator delete[](void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t) noexcept { release(p); }

namespace laconic::testing {
namespace {

struct Passes {
  double reads, writes;
};

// Of rank 0 in one step, after a few.
Passes passes_of(const std::string& exchange, const std::string& op, const std::string& memory,
                 int ranks) {
  const Model model = {{"w", {1024, kCount / 1024}}};
  Passes passes{};
  arena.used = 0;
  expect_no_errors(on_ranks(ranks, [&](Transport& transport) {
    const bool first = transport.rank() == 0;
    tracked = first;
    const auto aggregator =
        make_aggregator(exchange, {.transport = transport,
                                   .model = model,
                                   .plan = make_plan(model, "tensor", parse_operator(op)),
                                   .memory = memory,
                                   .timeout_seconds = 3600});
    std::vector<float> gradient(kCount);
    const auto fresh = gaussian(kCount, 1, static_cast<std::uint64_t>(transport.rank()));
    for (std::uint64_t step = 0; step < 4; ++step) {
      std::ranges::copy(fresh, gradient.begin());
      if (first && step == 3) start_counting();
      aggregator->average(gradient, {.step = step, .lr = 0.1F});
      if (first && step == 3) {
        stop_counting();
        const double pages = static_cast<double>(kCount * sizeof(float)) / kPage;
        passes = {static_cast<double>(arena.reads) / pages,
                  static_cast<double>(arena.writes) / pages};
      }
    }
    tracked = false;
  }));
  return passes;
}

void expect_passes(const std::string& exchange, const std::string& op, const std::string& memory,
                   int ranks, double most) {
  const Passes passes = passes_of(exchange, op, memory, ranks);
  const std::string name = exchange + " " + op + " " + memory + " on " + std::to_string(ranks);
  ::testing::Test::RecordProperty(
      name, std::to_string(passes.reads) + " reads, " + std::to_string(passes.writes) + " writes");
  EXPECT_LE(passes.reads + passes.writes, most + 0.05)
      << name << ": " << passes.reads << " reads, " << passes.writes << " writes";
  EXPECT_GE(passes.reads + passes.writes, 1.9) << name << ": nothing was counted";
}

TEST(Passes, OfNaturalCompressionAreThreeAtAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 4}) expect_passes("gather", "natural", "none", ranks, 3);
}

// What is kept is looked at again, entry by entry: at one in ten thousand that is a page now and
// then, where denser ones would touch every page for a few of its entries.
TEST(Passes, OfSparseOperatorsWithFeedbackAreFive) {
  for (const char* op : {"topk:0.0001", "sbc:0.0001", "stc:0.0001", "topk:0.0001+natural"})
    for (const int ranks : {2, 4}) expect_passes("gather", op, "feedback", ranks, 5);
}

TEST(Passes, OfPowerSgdAreEight) {
  for (const int ranks : {2, 4}) expect_passes("powersgd:2", "identity", "none", ranks, 8);
}

}  // namespace
}  // namespace laconic::testing
