// The thread pool: every piece once, exceptions reach the caller.
#include "laconic/base/pool.h"

#include <atomic>
#include <numeric>

#include "tests/support.h"

namespace laconic::testing {
namespace {

TEST(Pool, EveryPieceIsDoneOnceByAThreadThatExists) {
  for (const unsigned threads : {1U, 2U, 5U}) {
    Pool pool(threads);
    for (const std::size_t pieces : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> done(pieces);
      pool.each(pieces, [&](std::size_t piece, unsigned thread) {
        EXPECT_LT(thread, threads);
        ++done[piece];
      });
      for (const auto& count : done) EXPECT_EQ(count, 1);
    }
  }
}

TEST(Pool, TheFirstExceptionReachesTheCallerAndThePoolGoesOn) {
  Pool pool(3);
  for (int round = 0; round < 20; ++round) {
    EXPECT_THROW(pool.each(100,
                           [](std::size_t piece, unsigned) {
                             if (piece == 50) throw DataError("bad piece");
                           }),
                 DataError);
    std::atomic<int> done = 0;
    pool.each(100, [&](std::size_t, unsigned) { ++done; });
    EXPECT_EQ(done, 100);
  }
}

TEST(Pool, ZeroThreadsAreRefused) { EXPECT_THROW(Pool(0), UsageError); }

}  // namespace
}  // namespace laconic::testing
