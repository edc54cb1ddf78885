// Mixers over the thread transport: laws that all of them keep, and closed forms of each.
#include <numbers>

#include "laconic/kernels/reduce.h"
#include "tests/exchange/gossip/support.h"

namespace laconic::testing {
namespace {

template <class Body>
void on_every_mixer(Body body) {
  for (const MixerInfo& info : mixers())
    for (const std::string& spec : info.examples) {
      SCOPED_TRACE(spec);
      body(run_of(info, spec));
    }
}

TEST(Mixers, KeepTheSumOfModelsOnEveryTopology) {
  on_every_mixer([](GossipRun run) {
    if (run.op == "natural") run.op = "identity";  // what is lost moves the sum, on average by 0
    for (const TopologyInfo& topology : topologies()) {
      run.topology = topology.examples.front();
      SCOPED_TRACE(run.topology);
      Models models = starts_of(run);
      const auto before = mean_of(models);
      const double apart = disagreement(models);
      mix(run, models);
      const auto after = mean_of(models);
      for (std::size_t i = 0; i < before.size(); ++i) ASSERT_NEAR(after[i], before[i], 2e-6);
      EXPECT_NE(disagreement(models), apart);
    }
  });
}

TEST(Mixers, BringEveryTopologyTogether) {
  for (const TopologyInfo& topology : topologies())
    for (const char* mixer : {"dpsgd", "choco:0.3", "choco:0.3,fresh", "powergossip"}) {
      GossipRun run{.mixer = mixer, .topology = topology.examples.back(), .rounds = 60};
      if (run.mixer.starts_with("choco")) run.op = "topk:0.3";
      SCOPED_TRACE(run.mixer + " " + run.topology);
      Models models = starts_of(run);
      const double apart = disagreement(models);
      mix(run, models);
      EXPECT_LT(disagreement(models), 0.2 * apart);
    }
}

TEST(Mixers, SameSeedSameModels) {
  on_every_mixer([](const GossipRun& run) {
    Models once = starts_of(run), again = once;
    mix(run, once);
    mix(run, again);
    EXPECT_EQ(once, again);
  });
}

TEST(Mixers, StateResumesBitForBit) {
  on_every_mixer([](GossipRun run) {
    for (const char* topology : {"ring:5", "matching:4"}) {
      run.topology = topology;
      Models whole = starts_of(run), parts = whole;
      run.rounds = 9;
      mix(run, whole);
      expect_no_errors(on_ranks(static_cast<int>(parts.size()), [&](Transport& transport) {
        auto& model = parts[static_cast<std::size_t>(transport.rank())];
        auto mixer = mixer_of(run, transport);
        for (std::uint64_t step = 0; step < 9; ++step) {
          if (step == 4) {
            const Buffer saved = write_state(mixer->save());
            mixer = mixer_of(run, transport);
            mixer->load(read_state(saved.view()));
          }
          mixer->mix(model, {.step = step});
        }
      }));
      EXPECT_EQ(whole, parts) << topology;
    }
  });
}

TEST(Mixers, RefuseAnothersState) {
  on_every_mixer([](const GossipRun& run) {
    expect_no_errors(on_ranks(8, [&](Transport& transport) {
      const auto mixer = mixer_of(run, transport);
      State state = mixer->save();
      state["stranger"] = {1};
      EXPECT_THROW(mixer->load(state), DataError);
    }));
  });
}

TEST(Mixers, CountBytesAsTheyCross) {
  on_every_mixer([](const GossipRun& run) {
    Models models = starts_of(run);
    for (const auto& of_rank : mix(run, models))
      for (const StepStats& stats : of_rank) {
        EXPECT_GT(stats.payload_bytes, 0U);
        EXPECT_GT(stats.wire_bytes, stats.payload_bytes);
        EXPECT_GE(stats.traffic_bytes, stats.wire_bytes);
        EXPECT_EQ(stats.dense_bytes, 2 * 4 * count_of(run.model));
        EXPECT_GE(stats.rounds, 1U);
        EXPECT_TRUE(stats.finite);
      }
  });
}

TEST(Mixers, ModelsThatAreNotFiniteDoNotSpread) {
  on_every_mixer([](GossipRun run) {
    run.rounds = 2;
    Models models = starts_of(run);
    models[3][0] = std::numeric_limits<float>::quiet_NaN();
    const auto stats = mix(run, models);
    for (std::size_t rank = 0; rank < models.size(); ++rank) {
      EXPECT_EQ(kernels::all_finite(models[rank]), rank != 3);
      EXPECT_EQ(stats[rank][0].finite, rank < 2 || rank > 4) << rank;
    }
  });
}

TEST(Mixers, NameTheNeighbourThatLeft) {
  on_every_mixer([](const GossipRun& run) {
    Models models = starts_of(run);
    const Models before = models;
    const auto errors = on_ranks(8, [&](Transport& transport) {
      const auto rank = static_cast<std::size_t>(transport.rank());
      const auto mixer = mixer_of(run, transport);
      const State state = mixer->save();
      if (rank == 3) return;
      try {
        mixer->mix(models[rank], {});
      } catch (const TransportError&) {
        EXPECT_EQ(mixer->save(), state);
        throw;
      }
    });
    EXPECT_EQ(errors[3], "");
    for (const std::size_t rank : {2U, 4U}) {
      EXPECT_NE(errors[rank].find("rank 3 has left"), std::string::npos) << errors[rank];
      EXPECT_EQ(models[rank], before[rank]);
    }
  });
}

TEST(Mixers, RefuseWhatANeighbourShouldNotSend) {
  on_every_mixer([](const GossipRun& run) {
    const auto errors = on_ranks(8, [&](Transport& transport) {
      GossipRun mine = run;
      if (transport.rank() == 3) mine.seed = 10;
      const auto mixer = mixer_of(mine, transport);
      auto model = starts_of(run)[static_cast<std::size_t>(transport.rank())];
      mixer->mix(model, {});
    });
    EXPECT_NE(errors[2].find("from rank 3"), std::string::npos) << errors[2];
    EXPECT_NE(errors[2].find("seed 10"), std::string::npos) << errors[2];
  });
}

// What rank 0 throws when rank 1 sends noise of `length` bytes.
std::string answer_to_noise(const GossipRun& run, std::size_t length) {
  const auto words = made_up(length / sizeof(float) + 1);
  const ByteView noise{reinterpret_cast<const std::uint8_t*>(words.data()), length};
  std::string said;
  on_ranks(2, [&](Transport& transport) {
    if (transport.rank() == 0) {
      auto model = starts_of(run)[0];
      const auto mixer = mixer_of(run, transport);
      const State state = mixer->save();
      said = message_of<DataError>([&] { mixer->mix(model, {}); });
      EXPECT_EQ(model, starts_of(run)[0]);
      EXPECT_EQ(mixer->save(), state);
      return;
    }
    Buffer theirs;
    const Send send{0, noise};
    const Receive receive = Receive::sized(0, theirs, 1 << 20);
    Conversation(transport, Deadline::in(3600, "noise")).exchange({&send, 1}, {&receive, 1});
  });
  return said;
}

TEST(Mixers, HostileBytesAreNamedAndChangeNothing) {
  on_every_mixer([](GossipRun run) {
    run.topology = "ring:2";
    const std::size_t known = (count_of(run.model) + 3) / 4 + 28;  // of moniqua's messages
    for (const std::size_t length : {std::size_t{0}, std::size_t{900}, known, std::size_t{1} << 22})
      EXPECT_NE(answer_to_noise(run, length).find("rank 1"), std::string::npos) << length;
  });
}

TEST(Mixers, MistakesAreNamed) {
  expect_no_errors(on_ranks(1, [](Transport& transport) {
    const Model model = {{"w", {8, 8}}};
    const auto says = [&](const char* mixer, const char* op, const char* graph) {
      return message_of<UsageError>([&] {
        make_mixer(mixer, {.transport = transport,
                           .model = model,
                           .graph = make_graph(graph),
                           .plan = make_plan(model, "tensor", parse_operator(op))});
      });
    };
    EXPECT_NE(says("dpsdg", "identity", "ring:2").find("no mixer 'dpsdg'; known: choco"),
              std::string::npos);
    EXPECT_EQ(says("dpsgd", "identity", "ring:2"),
              "a graph of 2 ranks for 1; allowed: a topology of as many ranks as there are");
  }));
  const auto errors = on_ranks(2, [](Transport& transport) {
    const bool first = transport.rank() == 0;
    mixer_of({.mixer = first ? "dpsgd" : "choco:0.1",
              .topology = "ring:2",
              .op = first ? "natural" : "qsgd:1"},
             transport);
  });
  EXPECT_NE(errors[0].find("allowed: operator identity, not 'natural'"), std::string::npos);
  EXPECT_NE(errors[1].find("no contraction"), std::string::npos) << errors[1];
}

// One column of the ring's matrix: the eigenvector of frequency k.
Models wave(int frequency) {
  Models models;
  for (int rank = 0; rank < 8; ++rank)
    models.push_back({static_cast<float>(std::cos(2 * std::numbers::pi * frequency * rank / 8))});
  return models;
}

// Closed form: the ring's eigenvalues (1 + 2 cos(2 pi k / 8)) / 3; the alternating wave is
// multiplied by -1/3, the slowest by (1 + sqrt 2) / 3.
TEST(Dpsgd, WavesOnTheRingShrinkByTheirEigenvalues) {
  for (const auto& [frequency, factor] :
       {std::pair{4, -1.0 / 3}, {1, (1 + std::numbers::sqrt2) / 3}, {2, 1.0 / 3}}) {
    Models models = wave(frequency);
    const Models before = models;
    mix({.model = {{"x", {1}}}, .rounds = 1}, models);
    for (std::size_t rank = 0; rank < 8; ++rank)
      EXPECT_NEAR(models[rank][0], factor * before[rank][0], 1e-7);
  }
}

// Closed form: what is left after many rounds shrinks by the largest eigenvalue, with the best
// gamma by less.
TEST(Dpsgd, ContractsAsTheSpectrumSays) {
  const Spectrum spectrum = spectrum_of(make_graph("ring:8"));
  for (const auto& [mixer, rate] : {std::pair{"dpsgd", 0.804738}, {"dpsgd:1.308391", 0.744521}}) {
    GossipRun run{.mixer = mixer, .rounds = 10};
    Models models = starts_of(run);
    mix(run, models);
    const double early = disagreement(models);
    run.rounds = 4;
    mix(run, models);
    EXPECT_NEAR(std::pow(disagreement(models) / early, 1.0 / 8), rate, 2e-3);
  }
  EXPECT_NEAR(spectrum.contraction(1), 0.804738, 1e-6);
}

TEST(Dpsgd, AHypercubesMatchingsAgreeAfterOnePeriod) {
  GossipRun run{.topology = "matching:16", .rounds = 4};
  Models models = starts_of(run);
  const double apart = disagreement(models);
  mix(run, models);
  EXPECT_LT(disagreement(models), 1e-12 * apart);
}

// Closed form: copies that are sent whole and first are the models.
TEST(Choco, WithIdentityAndFreshCopiesIsPlainGossip) {
  GossipRun run{.mixer = "choco:0.7,fresh"};
  Models choco = starts_of(run), plain = choco;
  mix(run, choco);
  run.mixer = "dpsgd:0.7";
  mix(run, plain);
  expect_near(choco, plain, 2e-6);
}

// The cached sum of all copies that the papers keep stops at a disagreement of about 2 here.
TEST(Choco, AgreesOnAGraphThatChanges) {
  for (const char* mixer : {"choco:0.4", "choco:0.4,fresh"}) {
    GossipRun run{.mixer = mixer, .topology = "matching:8", .op = "topk:0.3", .rounds = 600};
    Models models = starts_of(run);
    const double apart = disagreement(models);
    mix(run, models);
    EXPECT_LT(disagreement(models), 1e-8 * apart) << mixer;
  }
}

TEST(Choco, AgreesWithEveryContractionOnTheRing) {
  for (const char* op : {"sign", "topk:0.1", "natural", "shrink+qsgd:4"}) {
    GossipRun run{.mixer = "choco:0.2", .op = op, .rounds = 400};
    Models models = starts_of(run);
    const double apart = disagreement(models);
    mix(run, models);
    EXPECT_LT(disagreement(models), 1e-2 * apart) << op;
  }
}

// Closed form: without compression no error is left to remember.
TEST(DeepSqueeze, WithIdentityIsPlainGossipAndRemembersNothing) {
  GossipRun run{.mixer = "deepsqueeze:0.7"};
  Models squeezed = starts_of(run), plain = squeezed;
  std::vector<double> owed(squeezed.size(), 1);
  mix(run, squeezed, &owed);
  for (const double norm : owed) EXPECT_EQ(norm, 0);
  run.mixer = "dpsgd:0.7";
  mix(run, plain);
  expect_near(squeezed, plain, 1e-6);
}

TEST(Mixers, SayWhereTheGradientGoes) {
  expect_no_errors(on_ranks(8, [](Transport& transport) {
    const auto first = [&](const char* mixer) {
      return mixer_of({.mixer = mixer}, transport)->gradient_first();
    };
    for (const char* mixer : {"deepsqueeze:0.1", "choco:0.1", "choco:0.1,fresh"}) {
      EXPECT_TRUE(first(mixer)) << mixer;
      EXPECT_FALSE(first((std::string(mixer) + ",after").c_str())) << mixer;
    }
    EXPECT_TRUE(first("dcd"));
    EXPECT_FALSE(first("ecd"));
    EXPECT_FALSE(first("dpsgd"));
  }));
}

// Tang et al., algorithm 1, written out for two workers.
TEST(DeepSqueeze, FollowsItsFormula) {
  GossipRun run{.mixer = "deepsqueeze:0.4", .topology = "ring:2", .op = "topk:0.2", .rounds = 4};
  run.model = {{"x", {50}}};
  const Operator op = parse_operator(run.op);
  Models models = starts_of(run), expected = models, errors(2, std::vector<float>(50));
  for (std::uint64_t round = 0; round < run.rounds; ++round) {
    Models sent;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      auto v = expected[rank];
      for (std::size_t i = 0; i < v.size(); ++i) v[i] += errors[rank][i];
      sent.push_back(through(op, v));
      for (std::size_t i = 0; i < v.size(); ++i) errors[rank][i] = v[i] - sent[rank][i];
    }
    for (std::size_t rank = 0; rank < 2; ++rank)
      for (std::size_t i = 0; i < 50; ++i)
        expected[rank][i] += 0.4F * 0.5F * (sent[1 - rank][i] - sent[rank][i]);
  }
  std::vector<double> owed(2);
  mix(run, models, &owed);
  expect_near(models, expected, 1e-6);
  EXPECT_NEAR(owed[0], std::sqrt(squared(errors[0])), 1e-5);
}

// Closed form: values on the grid are sent without rounding, so only the modulus is at work.
TEST(Moniqua, OnItsGridIsPlainGossip) {
  for (const auto& [mixer, apart] :
       {std::pair{"moniqua:1,0.5", 1.0}, {"moniqua:1,0.5,published", 2.0}}) {
    GossipRun run{.mixer = mixer, .rounds = 1};
    Models models = starts_of(run);
    for (auto& model : models)  // gaps of one level: below half of the span
      for (std::size_t i = 0; i < model.size(); ++i)
        model[i] = static_cast<float>(
            apart * (static_cast<double>(i % 5) + (model[i] > 0 ? 1 : 0)) +
            (apart == 2.0 ? 1 : 0));  // the published levels are odd multiples of theta
    Models plain = models;
    mix(run, models);
    run.mixer = "dpsgd:0.5";
    mix(run, plain);
    expect_near(models, plain, 1e-5);
  }
}

// Closed form: a gap is known modulo B, so one above B/2 is taken for its complement.
TEST(Moniqua, WrapsAroundWhenTheGapExceedsHalfTheSpan) {
  const auto gap_after = [](float gap) {
    Models models = {{0}, {gap}};
    mix({.mixer = "moniqua:1,0.5", .topology = "ring:2", .model = {{"x", {1}}}, .rounds = 1},
        models);
    return models[1][0] - models[0][0];
  };
  EXPECT_FLOAT_EQ(gap_after(1), 0.5F);
  EXPECT_FLOAT_EQ(gap_after(3), 3.5F);  // 3 is -1 modulo 4: the two move apart
}

// apart() after one round of two ranks that differ by `gap` everywhere, the larger of both.
double apart_after(const std::string& mixer, float gap, std::size_t count) {
  const GossipRun run{.mixer = mixer, .topology = "ring:2", .model = {{"x", {count}}}};
  std::vector<double> apart(2);
  expect_no_errors(on_ranks(2, [&](Transport& transport) {
    const auto rank = static_cast<std::size_t>(transport.rank());
    const auto own = mixer_of(run, transport);
    std::vector<float> x = gaussian(count, 3, 5);
    for (float& value : x) value += rank == 0 ? 0.0F : gap;
    own->mix(x, {});
    apart[rank] = own->apart();
  }));
  return std::max(apart[0], apart[1]);
}

// What is reported is certain, so never too much while nothing wraps, and with many entries close
// to the truth: each tells the gap less up to a level, which its draw decides.
TEST(Moniqua, ReportsHowFarNeighboursAreFromTheta) {
  constexpr std::size_t kMany = 5000;
  for (const auto& [mixer, most] : {std::pair{"moniqua:2", 3.0F}, {"moniqua:2,published", 4.0F}}) {
    SCOPED_TRACE(mixer);
    EXPECT_LT(apart_after(mixer, 0, kMany), 1e-12);
    for (const float gap : {0.2F, 1.0F, 1.9F, 2.5F, most}) {
      EXPECT_LE(apart_after(mixer, gap, kMany), gap / 2 + 1e-6);
      EXPECT_GE(apart_after(mixer, gap, kMany), gap / 2 - 0.01);
      EXPECT_LE(apart_after(mixer, gap, 1), gap / 2 + 1e-6);
    }
    EXPECT_GT(apart_after(mixer, most + 0.5F, kMany), 1);  // it wraps, and still shows
  }
  EXPECT_EQ(apart_after("dpsgd", 5, 10), 0);
}

// Rounding at random between levels s apart has a root mean square error of s / sqrt(6): 0.408
// theta on the cyclic grid, 0.816 theta on the published one.
TEST(Moniqua, ACyclicGridHalvesTheError) {
  constexpr std::size_t kCount = 40000;
  const auto error = [](const std::string& mixer, float level) {
    GossipRun run{.mixer = mixer, .topology = "ring:2", .model = {{"x", {kCount}}}, .rounds = 1};
    Models models(2, std::vector<float>(kCount, level));  // rank 1 stays on the grid
    for (std::size_t i = 0; i < kCount; ++i)
      models[0][i] += 2 * (static_cast<float>(i) + 0.5F) / kCount - 1;
    Models plain = models;
    mix(run, models);
    run.mixer = "dpsgd";
    mix(run, plain);
    return 2 * std::sqrt(squared_distance(models[0], plain[0]) / kCount);  // W is one half
  };
  EXPECT_NEAR(error("moniqua:1", 0), 0.408, 0.01);
  EXPECT_NEAR(error("moniqua:1,published", 1), 0.816, 0.02);
}

TEST(Moniqua, SendsTwoBitsPerEntry) {
  GossipRun run{.mixer = "moniqua:8", .model = {{"x", {1001}}}, .rounds = 1};
  Models models = starts_of(run);
  const StepStats stats = mix(run, models)[0][0];
  EXPECT_EQ(stats.payload_bytes, 2U * 251);
  EXPECT_EQ(stats.traffic_bytes, 2U * (251 + 28 + kMessageHead));
  EXPECT_EQ(stats.rounds, 1U);
}

}  // namespace
}  // namespace laconic::testing
