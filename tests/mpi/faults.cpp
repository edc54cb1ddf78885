// One-sided faults between processes: whatever goes wrong with one message of one rank, all ranks
// have made the same steps.
#include "tests/exchange/faults.h"
#include "laconic/codecs/crc32c.h"
#include "laconic/transports/mpi.h"

namespace laconic::testing {
namespace {

constexpr int kRanks = 4;
constexpr int kCases = 50;  // of each kind

// What ranks tell each other of a case: steps made, whether it is in doubt, who is to blame, and
// the hash of all means and states.
struct Told {
  std::uint32_t steps, doubt, noticed, hash;
  std::int32_t culprit;
};

std::uint32_t hash_of(const std::vector<std::vector<float>>& means) {
  std::uint32_t hash = 0;
  for (const auto& mean : means)
    hash = crc32c({reinterpret_cast<const std::uint8_t*>(mean.data()), mean.size() * 4}, hash);
  return hash;
}

std::vector<Told> tell_all(Transport& control, const Course& course) {
  const Told mine{static_cast<std::uint32_t>(course.means.size()),
                  course.outcome == Outcome::in_doubt, !course.sentence.empty(),
                  hash_of(course.means), course.culprit};
  std::vector<Buffer> all;
  Conversation(control, Deadline::in(3600, "comparing"))
      .all_gather({reinterpret_cast<const std::uint8_t*>(&mine), sizeof mine}, all, sizeof mine);
  std::vector<Told> told(all.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    std::memcpy(&told[rank], all[rank].data(), sizeof(Told));
  return told;
}

TEST(MpiFaults, ADamagedMessageLeavesAllRanksAlike) {
  const auto control = make_mpi_transport();
  ASSERT_EQ(control->size(), kRanks);
  const auto jobs = one_of_each(kRanks);
  int noticed = 0, doubts = 0, faults = 0;
  for (int i = 0; i < kCases; ++i)
    for (const auto kind :
         {Fault::Kind::corrupt, Fault::Kind::truncate, Fault::Kind::stale, Fault::Kind::corrupt}) {
      const Key draw = Key(static_cast<std::uint64_t>(i)).fork(static_cast<std::uint64_t>(faults));
      const Job& job = jobs[draw.bits(0) % jobs.size()];
      const int victim = static_cast<int>(draw.bits(1) % kRanks);
      const Fault fault{.message = draw.bits(2) % 40, .kind = kind};
      SCOPED_TRACE(text_of(job) + ", rank " + std::to_string(victim) + ", message " +
                   std::to_string(fault.message) + ", fault " +
                   std::to_string(static_cast<int>(kind)));
      Course course;
      {
        const auto transport = make_faulty_transport(
            make_mpi_transport(),
            control->rank() == victim ? std::vector{fault} : std::vector<Fault>{});
        run_course(*make_in_units(job, *transport, 3600), control->rank(), 2, course);
      }
      const auto told = tell_all(*control, course);
      const bool doubt = std::ranges::any_of(told, [](const Told& t) { return t.doubt != 0; });
      const Told* first = nullptr;
      for (const Told& rank : told) {
        doubts += static_cast<int>(rank.doubt);
        if (rank.doubt) continue;
        if (!first) first = &rank;
        EXPECT_EQ(rank.steps, first->steps);
        EXPECT_EQ(rank.hash, first->hash);
        if (!doubt) {
          EXPECT_EQ(rank.steps, kSteps);
        }
        if (rank.noticed) {
          EXPECT_EQ(rank.culprit, victim) << course.sentence;
        }
      }
      noticed += std::ranges::any_of(told, [](const Told& t) { return t.noticed != 0; });
      ++faults;
    }
  if (control->rank() == 0)
    std::printf("%d faults, %d noticed, %d ranks in doubt\n", faults, noticed, doubts);
}

}  // namespace
}  // namespace laconic::testing
