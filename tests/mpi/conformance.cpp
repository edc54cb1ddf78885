// The transport mpi conforms. Each process is one rank of all checks: mpirun -n 4 mpi_conformance.
#include "laconic/transports/mpi.h"

#include <ctime>
#include <thread>

#include "tests/transports/conformance.h"

namespace laconic::testing {
namespace {

class Conformance : public ::testing::TestWithParam<std::tuple<std::size_t, Check>> {};

// A transport of its own for each check, as some break it.
TEST_P(Conformance, Holds) {
  const auto& [piece_bytes, check] = GetParam();
  const MpiOptions options{.timeout_seconds = 120, .piece_bytes = piece_bytes, .own_reduce = true};
  const auto aside = make_mpi_transport();
  auto end = make_mpi_transport(options);
  check.run({end, *aside});
}

// Pieces that cut the longer messages, some at their very end; and those that cut none of these.
INSTANTIATE_TEST_SUITE_P(Mpi, Conformance,
                         ::testing::Combine(::testing::Values(100'000, std::size_t{1} << 30),
                                            ::testing::ValuesIn(conformance())),
                         [](const auto& info) {
                           const bool cut = std::get<0>(info.param) == 100'000;
                           return std::get<1>(info.param).name + (cut ? "InPieces" : "Whole");
                         });

// A second of waiting costs a small part of a second of its core.
TEST(Mpi, AWaitingRankLeavesItsCoreToOthers) {
  const auto aside = make_mpi_transport(), end = make_mpi_transport();
  meet(*aside);
  std::uint8_t byte = 0;
  if (end->rank() == 1) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    exchange(*end, {{0, {&byte, 1}}}, {}, patient("a test"));
  } else if (end->rank() == 0) {
    Stopwatch watch;
    const std::clock_t before = std::clock();
    exchange(*end, {}, {Receive::exactly(1, {&byte, 1})}, patient("a test"));
    const double busy = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
    const double waited = watch.lap();
    std::printf("waited %.3f s, of which busy %.3f s\n", waited, busy);
    EXPECT_GE(waited, 0.5);
    EXPECT_LT(busy, 0.3 * waited);
  }
  meet(*aside);
}

TEST(Mpi, RefusesPiecesThatMpiCannotCount) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1} << 31})
    EXPECT_THROW(make_mpi_transport(MpiOptions{.piece_bytes = bytes}), UsageError);
}

}  // namespace
}  // namespace laconic::testing
