// Every transport that lives in one process conforms; what only some of them promise.
#include <atomic>

#include "laconic/transports/faulty.h"
#include "laconic/transports/modelled.h"
#include "tests/ranks.h"
#include "tests/transports/conformance.h"

namespace laconic::testing {
namespace {

struct Kind {
  std::string name;
  Ends (*make)(int size);
};

std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

// Each end of the thread transport inside another.
template <class Wrap>
Ends wrapped(int size, Wrap wrap) {
  Ends ends = make_thread_transports(size);
  for (auto& end : ends) end = wrap(std::move(end));
  return ends;
}

std::unique_ptr<Transport> through_callbacks(std::unique_ptr<Transport> inner) {
  const int rank = inner->rank(), size = inner->size();
  return make_callback_transport(
      {.rank = rank,
       .size = size,
       .exchange = [inner = std::shared_ptr(std::move(inner))](
                       auto sends, auto receives,
                       auto& deadline) { inner->exchange(sends, receives, deadline); },
       .all_reduce = {}});
}

const Link kLink{.latency_seconds = 1e-3, .bits_per_second = 1e6};

const Kind kKinds[] = {
    {"threads", make_thread_transports},
    {"callbacks", [](int size) { return wrapped(size, through_callbacks); }},
    {"modelled",
     [](int size) {
       return wrapped(size, [](auto inner) {
         return std::make_unique<ModelledTransport>(std::move(inner), kLink);
       });
     }},
    {"faulty",
     [](int size) {
       return wrapped(size, [](auto inner) { return make_faulty_transport(std::move(inner), {}); });
     }},
};

class Conformance : public ::testing::TestWithParam<std::tuple<Kind, Check>> {};

TEST_P(Conformance, Holds) {
  const auto& [kind, check] = GetParam();
  for (const int size : {1, 2, 5}) {
    if (size < check.least_size) continue;
    SCOPED_TRACE(std::to_string(size) + " ranks");
    Ends aside = make_thread_transports(size);
    const auto& run = check.run;
    expect_no_errors(with_ends(kind.make(size), [&](std::unique_ptr<Transport>& end) {
      run({end, *aside[static_cast<std::size_t>(end->rank())]});
    }));
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Conformance,
                         ::testing::Combine(::testing::ValuesIn(kKinds),
                                            ::testing::ValuesIn(conformance())),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + std::get<1>(info.param).name;
                         });

TEST(Threads, CollectivesOfManyRanks) {
  for (const int ranks : {3, 16, 33})
    expect_no_errors(on_ranks(ranks, [](Transport& transport) {
      gather_multiples(transport, 10);
      reduce_both(transport, 100);
    }));
}

TEST(Threads, ARankThatLeavesIsNamedAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  const auto errors = on_ranks(4, [&](Transport& transport) {
    if (transport.rank() == 2) return;
    std::vector<float> values(1000, 1);
    transport.all_reduce(values, Deadline::in(600, "all_reduce of gradients"));
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(300));
  EXPECT_EQ(
      errors[3],
      "transport: rank 2 has left while rank 3 waits for it to send (all_reduce of gradients)");
  // The others wait for it too, or for ranks that do.
  EXPECT_EQ(errors[0].find("transport: rank 2 "), 0U) << errors[0];
  EXPECT_EQ(errors[1].find("transport: rank 2 "), 0U) << errors[1];
}

TEST(Threads, AStalledRankIsNamedInOneSentence) {
  std::atomic<bool> over = false;
  const auto errors = on_ranks(2, [&](Transport& transport) {
    if (transport.rank() == 1) return over.wait(false);
    std::vector<std::uint8_t> in(5);
    const Receive receive{1, in};
    const std::string error = message_of<TransportError>([&] {
      transport.exchange({}, {&receive, 1}, Deadline::in(0.5, "a test"));
    });
    EXPECT_EQ(error, "rank 1 does not answer: rank 0 waits for it to send within 0.5 s (a test)");
    over = true;
    over.notify_all();
  });
  expect_no_errors(errors);
}

TEST(Threads, ATimeoutMustBeATime) {
  for (const double seconds : {0.0, -1.0, 1e300, double{NAN}, double{INFINITY}})
    EXPECT_THROW(Deadline::in(seconds, "a test"), UsageError) << seconds;
}

TEST(Callbacks, AFailureOfTheHostIsATransportError) {
  const auto transport = make_callback_transport(
      {.rank = 0,
       .size = 2,
       .exchange = [](auto, auto, const Deadline&) { throw std::runtime_error("cable cut"); },
       .all_reduce = {}});
  std::vector<float> values(10);
  EXPECT_EQ(message_of<TransportError>([&] { transport->all_reduce(values, patient("a test")); }),
            "rank 0: the host's transport failed (a test): cable cut");
  EXPECT_THROW(make_callback_transport({.rank = 2, .size = 2, .exchange = {}, .all_reduce = {}}),
               UsageError);
}

// ---- modelled

// What each rank's clock shows after a run of a body on this link.
template <class Body>
std::vector<double> clocks(int size, const Link& link, Body body) {
  std::vector<double> seconds(static_cast<std::size_t>(size));
  expect_no_errors(with_ends(make_thread_transports(size), [&](std::unique_ptr<Transport>& end) {
    ModelledTransport modelled(std::move(end), link);
    body(modelled);
    seconds[static_cast<std::size_t>(modelled.rank())] = modelled.seconds();
  }));
  return seconds;
}

void expect_clocks(const std::vector<double>& seconds, const std::vector<double>& expected) {
  ASSERT_EQ(seconds.size(), expected.size());
  for (std::size_t rank = 0; rank < seconds.size(); ++rank)
    EXPECT_NEAR(seconds[rank], expected[rank], 1e-12) << "rank " << rank;
}

TEST(Modelled, AnExchangeTakesLatencyAndItsBytes) {
  expect_clocks(clocks(3, kLink, [](Transport& t) { ring_with(t, 1000); }),
                std::vector<double>(3, 1e-3 + 8e-3));
  expect_clocks(clocks(3, {}, [](Transport& t) { ring_with(t, 1000); }), {0, 0, 0});
}

TEST(Modelled, CollectivesTakeWhatTheySend) {
  const auto reduce = [](Transport& t) {
    std::vector<float> values(100, 1);
    t.all_reduce(values, patient("a test"));
  };
  expect_clocks(clocks(4, kLink, reduce), std::vector<double>(4, 6 * (1e-3 + 8 * 100e-6)));
  const auto gather = [](Transport& t) {
    std::vector<Buffer> all;
    t.all_gather(message(t.rank() == 1 ? 500 : 100, 0, 0), all, 1000, patient("a test"));
  };
  // All wait for the rank that sends most: three times eight bytes, then three times 500.
  expect_clocks(clocks(4, kLink, gather), std::vector<double>(4, 2e-3 + 8 * 3 * 508e-6));
}

// 0 sends to 1, then 1 to 2: each hop is as late as the one before it.
TEST(Modelled, ClocksTravelWithMessages) {
  const auto chain = [](Transport& t) {
    const auto length = [](int, int) { return std::size_t{1000}; };
    if (t.rank() > 0) exchange_with(t, {}, {t.rank() - 1}, length);
    if (t.rank() < 2) exchange_with(t, {t.rank() + 1}, {}, length);
  };
  expect_clocks(clocks(3, kLink, chain), {9e-3, 18e-3, 18e-3});
}

TEST(Modelled, SleepsWhenAsked) {
  Link link = kLink;
  link.sleep = true;
  const auto start = std::chrono::steady_clock::now();
  expect_clocks(clocks(2, link, [](Transport& t) { ring_with(t, 10'000); }), {81e-3, 81e-3});
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(81));
}

TEST(Modelled, ALinkMustBeOne) {
  for (const Link& link : {Link{.latency_seconds = -1}, Link{.latency_seconds = NAN},
                           Link{.latency_seconds = INFINITY}, Link{.bits_per_second = 0},
                           Link{.bits_per_second = -5}, Link{.bits_per_second = NAN}})
    EXPECT_THROW(ModelledTransport(std::move(make_thread_transports(1)[0]), link), UsageError);
  EXPECT_EQ(message_of<UsageError>([] {
              ModelledTransport(std::move(make_thread_transports(1)[0]), {.bits_per_second = 0});
            }),
            "a bandwidth of 0.000000 bits per second; allowed: above 0");
}

// ---- faulty

// Two exchanges in a ring of three, in which something goes wrong with rank 1 in the second.
std::vector<std::string> with_fault(const Fault& fault, double seconds = 120) {
  std::vector<std::string> results(3);
  Ends aside = make_thread_transports(3);
  expect_no_errors(with_ends(make_thread_transports(3), [&](std::unique_ptr<Transport>& end) {
    const auto rank = static_cast<std::size_t>(end->rank());
    end = make_faulty_transport(std::move(end),
                                rank == 1 ? std::vector{fault} : std::vector<Fault>{});
    ring_with(*end, 100);
    std::vector<std::uint8_t> in(100);
    const auto out = message(100, 0, 0);
    const Send send{(end->rank() + 1) % 3, out};
    const Receive receive{(end->rank() + 2) % 3, in};
    try {
      end->exchange({&send, 1}, {&receive, 1}, Deadline::in(seconds, "a test"));
      results[rank] = in == out ? "right" : "wrong";
    } catch (const TransportError& error) {
      results[rank] = error.what();
    }
    meet(*aside[rank]);
  }));
  return results;
}

TEST(Faulty, ADroppedMessageIsWaitedFor) {
  const auto results = with_fault({.exchange = 1, .kind = Fault::Kind::drop}, kShort);
  EXPECT_EQ(results[2], "rank 1 does not answer: rank 2 waits for it to send within 3 s (a test)");
}

TEST(Faulty, ADelayedMessageArrives) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(with_fault({.exchange = 1, .kind = Fault::Kind::delay, .seconds = 0.3}),
            std::vector<std::string>(3, "right"));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(300));
}

TEST(Faulty, ACorruptedMessageIsAnother) {
  EXPECT_EQ(with_fault({.exchange = 1, .kind = Fault::Kind::corrupt}),
            (std::vector<std::string>{"right", "right", "wrong"}));
}

TEST(Faulty, ATruncatedMessageIsRefused) {
  EXPECT_EQ(with_fault({.exchange = 1, .kind = Fault::Kind::truncate}, kShort)[2],
            "rank 1 sent 99 bytes where rank 2 expects 100 (a test)");
}

TEST(Faulty, AKilledRankStaysDead) {
  const auto results = with_fault({.exchange = 1, .kind = Fault::Kind::kill}, kShort);
  EXPECT_EQ(results[1], "rank 1 was killed as planned (a test)");
  EXPECT_EQ(results[2], "rank 1 has left while rank 2 waits for it to send (a test)");
  const auto end = make_faulty_transport(std::move(make_thread_transports(2)[1]),
                                         {{.exchange = 0, .kind = Fault::Kind::kill}});
  for (int i = 0; i < 3; ++i) EXPECT_THROW(ring_with(*end, 1), TransportError);
}

// A frame with a turned bit never becomes part of a mean: its checksum or its fields tell.
TEST(Faulty, ADamagedFrameIsNamedByItsRank) {
  const Model model = {{"w", {40, 30}}};
  const auto errors = with_ends(make_thread_transports(3), [&](std::unique_ptr<Transport>& end) {
    if (end->rank() == 1)  // exchange 0 tells lengths, exchange 1 carries frames
      end = make_faulty_transport(std::move(end), {{.exchange = 1, .kind = Fault::Kind::corrupt}});
    const auto aggregator =
        make_aggregator("gather", {.transport = *end,
                                   .model = model,
                                   .plan = make_plan(model, "tensor", parse_operator("natural"))});
    auto gradient = gaussian(count_of(model));
    aggregator->average(gradient, {});
  });
  EXPECT_EQ(errors[0].find("from rank 1 in step 0: the frame"), 0U) << errors[0];
  EXPECT_EQ(errors[2].find("from rank 1 in step 0: the frame"), 0U) << errors[2];
}

}  // namespace
}  // namespace laconic::testing
