// What a neighbour may get wrong: damage, missing bytes, another step. It is named, and the model
// and what the mixer remembers stay as they were.
#include "laconic/transports/faulty.h"
#include "tests/exchange/gossip/support.h"

namespace laconic::testing {
namespace {

// A chain of three, the last of which errs: its neighbour has a good message from rank 0 in its
// hands when it finds out, and hears of nobody else's trouble first.
constexpr const char* kTopology = "chain:3";
constexpr std::size_t kFaulty = 2;

template <class Body>
void on_every_mixer(Body body) {
  for (const MixerInfo& info : mixers())
    for (const std::string& spec : info.examples) {
      SCOPED_TRACE(spec);
      body(run_of(info, spec, kTopology));
    }
}

// Two good steps, then the one that `fault` strikes. Gives what rank 1 says.
std::string answer(const GossipRun& run, Fault fault, std::uint64_t wrong_step = 2) {
  Models models = starts_of(run);
  auto ends = make_thread_transports(3);
  ends[kFaulty] = make_faulty_transport(std::move(ends[kFaulty]), {fault});
  const auto errors = with_ends(std::move(ends), [&](std::unique_ptr<Transport>& end) {
    const auto rank = static_cast<std::size_t>(end->rank());
    const auto mixer = mixer_of(run, *end);
    for (std::uint64_t step = 0; step < 2; ++step) mixer->mix(models[rank], {.step = step});
    const auto model = models[rank];
    const State state = mixer->save();
    try {
      mixer->mix(models[rank], {.step = rank == kFaulty ? wrong_step : 2});
    } catch (const std::exception&) {
      EXPECT_EQ(models[rank], model) << rank;
      EXPECT_EQ(mixer->save(), state) << rank;
      throw;
    }
  });
  return errors[1];
}

// Of the last rank, which has one neighbour.
std::uint64_t messages_per_step(const GossipRun& run) {
  Models models = starts_of(run);
  return mix(run, models)[0][0].rounds;
}

TEST(GossipFaults, DamagedAndTruncatedMessagesAreNamedAndChangeNothing) {
  on_every_mixer([](const GossipRun& run) {
    const std::uint64_t per_step = messages_per_step(run);
    ASSERT_GE(per_step, 1U);
    for (std::uint64_t i = 0; i < per_step; ++i)
      for (const auto kind : {Fault::Kind::corrupt, Fault::Kind::truncate}) {
        const std::string said = answer(run, {2 * per_step + i, kind});
        EXPECT_NE(said.find("rank 2"), std::string::npos) << i << ": " << said;
      }
  });
}

TEST(GossipFaults, ARankInAnotherStepIsNamed) {
  on_every_mixer([](const GossipRun& run) {
    const std::string said = answer(run, {~0ULL, Fault::Kind::corrupt}, 7);
    EXPECT_NE(said.find("from rank 2"), std::string::npos) << said;
    EXPECT_NE(said.find("step 7"), std::string::npos) << said;
  });
}

TEST(GossipFaults, ARankThatDiesIsNamed) {
  on_every_mixer([](const GossipRun& run) {
    const std::uint64_t per_step = messages_per_step(run);
    for (std::uint64_t i = 0; i < per_step; ++i) {
      const std::string said = answer(run, {2 * per_step + i, Fault::Kind::kill});
      EXPECT_NE(said.find("transport: rank 2 has left"), std::string::npos) << i << ": " << said;
    }
  });
}

}  // namespace
}  // namespace laconic::testing
