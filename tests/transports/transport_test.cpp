// Every transport that lives in one process conforms; what only some of them promise.
#include <atomic>

#include "laconic/transports/faulty.h"
#include "laconic/transports/head.h"
#include "laconic/transports/modelled.h"
#include "tests/ranks.h"
#include "tests/transports/conformance.h"
#include "tests/transports/sockets.h"

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
  const std::uint64_t attempt = inner->open_attempt();
  return make_callback_transport({.rank = rank,
                                  .size = size,
                                  .exchange =
                                      [attempt, inner = std::shared_ptr(std::move(inner))](
                                          auto sends, auto receives, auto& deadline) {
                                        Transfer transfer;
                                        transfer.operation = deadline.operation;
                                        transfer.sends.assign(sends.begin(), sends.end());
                                        transfer.receives.assign(receives.begin(), receives.end());
                                        inner->start({.attempt = attempt}, transfer);
                                        inner->wait(transfer, deadline);
                                      },
                                  .all_reduce = {}});
}

// The same by messages that are started and asked after, each as a transfer of its own.
std::unique_ptr<Transport> through_messages(std::unique_ptr<Transport> inner) {
  const int rank = inner->rank(), size = inner->size();
  const std::uint64_t attempt = inner->open_attempt();
  const std::shared_ptr<Transport> shared = std::move(inner);
  return make_callback_transport(
      {.rank = rank,
       .size = size,
       .exchange = {},
       .all_reduce = {},
       .start =
           [attempt, shared](int tag, auto sends, auto receives) {
             auto transfer = std::make_unique<Transfer>();
             transfer->sends.assign(sends.begin(), sends.end());
             transfer->receives.assign(receives.begin(), receives.end());
             shared->start({.attempt = attempt, .unit = static_cast<std::uint32_t>(tag)},
                           *transfer);
             return static_cast<void*>(transfer.release());
           },
       .test =
           [shared](void* handle) {
             std::unique_ptr<Transfer> transfer(static_cast<Transfer*>(handle));
             if (shared->test(*transfer)) return true;
             static_cast<void>(transfer.release());
             return false;
           },
       .cancel = [](void* handle) { delete static_cast<Transfer*>(handle); }});
}

const Link kLink{.latency_seconds = 1e-3, .bits_per_second = 1e6};

const Kind kKinds[] = {
    {"threads", make_thread_transports},
    {"callbacks", [](int size) { return wrapped(size, through_callbacks); }},
    {"messages", [](int size) { return wrapped(size, through_messages); }},
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
    {"sockets", unix_ends},
    {"tcp", tcp_ends},
};

class Conformance : public ::testing::TestWithParam<std::tuple<Kind, Check>> {};

TEST_P(Conformance, Holds) {
  const auto& [kind, check] = GetParam();
  for (const int size : {1, 2, 5}) {
    if (size < check.least_size) continue;
    if (!check.where_it_blocks && kind.make(1)[0]->blocks()) continue;
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

TEST(Threads, ARankThatLeavesIsNamedToAllAtOnce) {
  const auto errors = on_ranks(4, [&](Transport& transport) {
    if (transport.rank() == 2) return;
    std::vector<float> values(1000, 1);
    const Said said = said_by([&] {
      Conversation(transport, patient("all_reduce of gradients")).all_reduce(std::span(values));
    });
    EXPECT_EQ(said.rank, 2);
    // Rank 3 waits for its message, rank 1 for it to take one: whoever finds out first tells all.
    expect_parts(said.what, {"rank 2 has left while rank ", " waits for it to "});
  });
  expect_no_errors(errors);
}

// 0 waits for 1, 1 for 2, and 2 for nobody: it is the one.
TEST(Threads, WhoHoldsAllUpIsNamed) {
  Ends aside = make_thread_transports(3);
  expect_no_errors(on_ranks(3, [&](Transport& t) {
    Transport& apart = *aside[static_cast<std::size_t>(t.rank())];
    const std::uint64_t attempt = t.open_attempt();
    if (t.rank() == 2) return meet(apart), meet(apart);
    Missing missing(t, t.rank() + 1, attempt);
    EXPECT_FALSE(t.test(missing.transfer));
    t.idle(std::chrono::steady_clock::now());
    meet(apart);
    if (t.rank() == 0) {
      const Said said = said_by([&] { t.wait(missing.transfer, impatient("a result")); });
      EXPECT_EQ(
          said.what,
          "rank 2 does not answer: rank 0 waits for rank 1 to send within 0.001 s, and rank 1, "
          "in the end, for rank 2 (a result)");
      EXPECT_EQ(said.rank, 2);
    }
    meet(apart);
  }));
}

// 1024 ranks are a few megabytes, and a round of all of them with all is a matter of seconds.
TEST(Threads, ManyRanks) {
  constexpr int kRanks = 1024;
  Ends ends = make_thread_transports(kRanks);
  std::vector<std::uint64_t> attempts;
  for (auto& end : ends) attempts.push_back(end->open_attempt());
  std::vector<Transfer> transfers(kRanks);
  std::vector<std::uint32_t> out(kRanks), in(kRanks);
  for (std::size_t r = 0; r < kRanks; ++r) {
    out[r] = static_cast<std::uint32_t>(r);
    const int next = static_cast<int>((r + 7) % kRanks),
              last = static_cast<int>((r + kRanks - 7) % kRanks);
    transfers[r].sends = {{next, {reinterpret_cast<const std::uint8_t*>(&out[r]), 4}}};
    transfers[r].receives = {Receive::exactly(last, {reinterpret_cast<std::uint8_t*>(&in[r]), 4})};
    ends[r]->start({.attempt = attempts[r]}, transfers[r]);
  }
  for (int pass = 0; pass < 2; ++pass)
    for (std::size_t r = 0; r < kRanks; ++r)
      if (transfers[r].flies()) {
        EXPECT_TRUE(ends[r]->test(transfers[r]) || pass == 0) << r;
      }
  for (std::size_t r = 0; r < kRanks; ++r) EXPECT_EQ(in[r], out[(r + kRanks - 7) % kRanks]);
}

TEST(Threads, ATimeoutMustBeATime) {
  for (const double seconds :
       {0.0, -1.0, 1.1 * kLongestTimeout, 1e300, double{NAN}, double{INFINITY}})
    EXPECT_THROW(Deadline::in(seconds, "a test"), UsageError) << seconds;
}

// As over sockets: rank 0's word comes to rank 1 alone, which leaves.
TEST(Callbacks, WhoHearsOfAnEndPassesItOn) {
  Ends inner = make_thread_transports(3);
  const std::uint64_t attempt = inner[0]->open_attempt();
  auto one = through_messages(std::move(inner[1])), two = through_messages(std::move(inner[2]));
  const Buffer reason = write_reason(0, "no memory");
  const HeadBytes head =
      write_head({.kind = Head::Kind::abort, .tag = {}, .length = reason.size()});
  Transfer word;
  word.sends = {{1, head}, {1, reason.view()}};
  inner[0]->start({.attempt = attempt}, word);
  const auto heard = [](Transport& end, int from) {
    Missing missing(end, from, end.open_attempt());
    return said_by([&] { end.wait(missing.transfer, patient("a result")); });
  };
  expect_said(heard(*one, 0), no_memory());
  one.reset();
  expect_said(heard(*two, 1), no_memory());
}

TEST(Callbacks, AFailureOfTheHostIsATransportError) {
  const auto transport = make_callback_transport(
      {.rank = 0,
       .size = 2,
       .exchange = [](auto, auto, const Deadline&) { throw std::runtime_error("cable cut"); },
       .all_reduce = {}});
  std::vector<float> values(10);
  EXPECT_EQ(message_of<TransportError>(
                [&] { Conversation(*transport, patient("a test")).all_reduce(std::span(values)); }),
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

// What a message of so many bytes takes on kLink, without the latency.
double taken(double bytes) { return 8e-6 * (bytes + static_cast<double>(kMessageHead)); }

TEST(Modelled, AnExchangeTakesLatencyAndItsBytes) {
  expect_clocks(clocks(3, kLink, [](Transport& t) { ring_with(t, 1000); }),
                std::vector<double>(3, 1e-3 + taken(1000)));
  expect_clocks(clocks(3, {}, [](Transport& t) { ring_with(t, 1000); }), {0, 0, 0});
}

TEST(Modelled, CollectivesTakeWhatTheySend) {
  const auto reduce = [](Transport& t) {
    std::vector<float> values(100, 1);
    Conversation(t, patient("a test")).all_reduce(std::span(values));
  };
  expect_clocks(clocks(4, kLink, reduce), std::vector<double>(4, 6 * (1e-3 + taken(100))));
  const auto gather = [](Transport& t) {
    std::vector<Buffer> all;
    Conversation(t, patient("a test"))
        .all_gather(message(t.rank() == 1 ? 500 : 100, 0, 0), all, 1000);
  };
  // Rank 1 has most to send: its last message leaves after two others, to rank 0.
  const auto gathered = clocks(4, kLink, gather);
  EXPECT_NEAR(gathered[1], 1e-3 + 3 * taken(500), 1e-12);
  EXPECT_NEAR(gathered[0], 1e-3 + 3 * taken(500), 1e-12);
}

// Rank 0 sends nothing and is sent to by all others: its way in is what takes time.
TEST(Modelled, WhatComesInTakesItsTimeToo) {
  const auto length = [](int, int) { return std::size_t{1000}; };
  const auto to_one = [&](Transport& t) {
    const bool first = t.rank() == 0;
    exchange_with(t, first ? std::vector<int>{} : std::vector{0},
                  first ? others(t) : std::vector<int>{}, length);
  };
  const double one = 1e-3 + taken(1000);
  expect_clocks(clocks(5, kLink, to_one), {1e-3 + 4 * taken(1000), one, one, one, one});
}

// 0 sends to 1, then 1 to 2: each hop is as late as the one before it.
TEST(Modelled, ClocksTravelWithMessages) {
  const auto chain = [](Transport& t) {
    const auto length = [](int, int) { return std::size_t{1000}; };
    const std::vector<int> none;
    exchange_with(t, t.rank() == 0 ? std::vector{1} : none, t.rank() == 1 ? std::vector{0} : none,
                  length);
    exchange_with(t, t.rank() == 1 ? std::vector{2} : none, t.rank() == 2 ? std::vector{1} : none,
                  length);
  };
  const double hop = 1e-3 + taken(1000);
  expect_clocks(clocks(3, kLink, chain), {hop, 2 * hop, 2 * hop});
}

// Two transfers that fly together share the link one after the other, and only one latency.
TEST(Modelled, TransfersThatOverlapShareTheLink) {
  const auto both = [](Transport& t) {
    const std::uint64_t attempt = t.open_attempt();
    Hop one(t, 4, 0), two(t, 4, 1);
    t.start({.attempt = attempt, .leg = 0}, one.transfer);
    t.start({.attempt = attempt, .leg = 1}, two.transfer);
    t.wait(one.transfer, patient("a hop"));
    t.wait(two.transfer, patient("a hop"));
  };
  const double length = static_cast<double>(Hop::length_of(4));
  expect_clocks(clocks(2, kLink, both), std::vector<double>(2, 1e-3 + 2 * taken(length)));
}

TEST(Modelled, SleepsWhenAsked) {
  Link link = kLink;
  link.sleep = true;
  const auto start = std::chrono::steady_clock::now();
  expect_clocks(clocks(2, link, [](Transport& t) { ring_with(t, 10'000); }),
                std::vector<double>(2, 1e-3 + taken(10'000)));
  EXPECT_GE(std::chrono::steady_clock::now() - start,
            std::chrono::duration<double>(1e-3 + taken(10'000)));
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

// Rank 1 sends three messages, with the second of which something goes wrong. What rank 0 makes of
// the second and the third, and at last what rank 1 says.
std::vector<std::string> with_fault(Fault::Kind kind, const Deadline& deadline) {
  std::vector<std::string> results;
  std::string last;
  Ends aside = make_thread_transports(2);
  expect_no_errors(with_ends(make_thread_transports(2), [&](std::unique_ptr<Transport>& end) {
    const bool sends = end->rank() == 1;
    if (sends) end = make_faulty_transport(std::move(end), {{.message = 1, .kind = kind}});
    const std::uint64_t attempt = end->open_attempt();
    for (std::uint32_t unit = 0; unit < 3; ++unit) {
      std::vector<std::uint8_t> in(100);
      const auto out = message(100, static_cast<int>(unit), 0);
      Transfer transfer;
      transfer.operation = "a test";
      if (sends)
        transfer.sends = {{0, out}};
      else
        transfer.receives = {Receive::exactly(1, in)};
      end->start({.attempt = attempt, .unit = unit}, transfer);
      const Said said =
          said_by([&] { end->wait(transfer, sends || unit == 0 ? patient("a test") : deadline); });
      if (sends && unit == 2) last = said.what;
      if (sends || unit == 0) continue;
      results.push_back(said.status != Status::ok  ? said.what
                        : in == out                ? "right"
                        : in == message(100, 0, 0) ? "stale"
                                                   : "wrong");
    }
    meet(*aside[sends ? 1 : 0]);
  }));
  results.push_back(last);
  return results;
}

using Results = std::vector<std::string>;

TEST(Faulty, WithoutAFaultAllIsRight) {
  expect_no_errors(with_ends(make_thread_transports(2), [](std::unique_ptr<Transport>& end) {
    end = make_faulty_transport(std::move(end), {});
    ring_with(*end, 100);
  }));
}

TEST(Faulty, ADroppedMessageAndAllAfterItAreWaitedFor) {
  const std::string waited =
      "rank 1 does not answer: rank 0 waits for it to send within 0.001 s (a test)";
  EXPECT_EQ(with_fault(Fault::Kind::drop, impatient("a test")),
            (Results{waited, waited, "nothing"}));
}

TEST(Faulty, ACorruptedMessageIsAnother) {
  EXPECT_EQ(with_fault(Fault::Kind::corrupt, patient("a test")),
            (Results{"wrong", "right", "nothing"}));
}

TEST(Faulty, ATruncatedMessageIsRefused) {
  EXPECT_EQ(with_fault(Fault::Kind::truncate, patient("a test")),
            (Results{"rank 1 sent 99 bytes where 100 are expected (a test)", "right", "nothing"}));
}

TEST(Faulty, AStaleMessageIsAnEarlierOne) {
  EXPECT_EQ(with_fault(Fault::Kind::stale, patient("a test")),
            (Results{"stale", "right", "nothing"}));
}

TEST(Faulty, AKilledRankStaysDead) {
  const std::string gone = "rank 1 has left while rank 0 waits for it to send (a test)";
  EXPECT_EQ(with_fault(Fault::Kind::kill, patient("a test")),
            (Results{gone, gone, "rank 1 was killed as planned"}));
}

// A rank that is stalled neither sends nor tells; when it is released it goes on where it was.
TEST(Faulty, AStalledRankIsSilentUntilItIsReleased) {
  const auto released = std::make_shared<std::atomic<bool>>(false);
  expect_no_errors(with_ends(make_thread_transports(2), [&](std::unique_ptr<Transport>& end) {
    const bool sends = end->rank() == 1;
    if (sends)
      end = make_faulty_transport(
          std::move(end), {{.message = 0, .kind = Fault::Kind::stall, .released = released}});
    const std::uint64_t attempt = end->open_attempt();
    std::vector<std::uint8_t> in(100);
    const auto out = message(100, 0, 0);
    Transfer transfer;
    transfer.operation = "a test";
    if (sends) {
      transfer.sends = {{0, out}};
      end->start({.attempt = attempt}, transfer);
      return end->wait(transfer, patient("a test"));
    }
    transfer.receives = {Receive::exactly(1, in)};
    end->start({.attempt = attempt}, transfer);
    EXPECT_EQ(said_by([&] { end->wait(transfer, impatient("a test")); }).rank, 1);
    *released = true;
    end->start({.attempt = attempt}, transfer);
    end->wait(transfer, patient("a test"));
    EXPECT_EQ(in, out);
  }));
}

// A frame with a turned bit never becomes part of a mean: its checksum or its fields tell.
TEST(Faulty, ADamagedFrameIsNamedByItsRank) {
  const Model model = {{"w", {40, 30}}};
  const auto errors = with_ends(make_thread_transports(3), [&](std::unique_ptr<Transport>& end) {
    if (end->rank() == 1)
      end = make_faulty_transport(std::move(end), {{.message = 0, .kind = Fault::Kind::corrupt},
                                                   {.message = 1, .kind = Fault::Kind::corrupt}});
    const auto aggregator =
        make_aggregator("gather", {.transport = *end,
                                   .model = model,
                                   .plan = make_plan(model, "tensor", parse_operator("natural"))});
    auto gradient = gaussian(count_of(model));
    aggregator->average(gradient, {});
  });
  EXPECT_NE(errors[0].find("from rank 1 in step 0: the frame"), std::string::npos) << errors[0];
  EXPECT_NE(errors[2].find("from rank 1 in step 0: the frame"), std::string::npos) << errors[2];
}

}  // namespace
}  // namespace laconic::testing
