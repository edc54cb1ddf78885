// What every transport must do, as checks that one rank runs and all ranks run together: in threads
// (transport_test.cpp) and in processes (mpi/conformance.cpp).
#pragma once

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>

#include "tests/support.h"

namespace laconic::testing {

// One rank's end of the transport that is checked, which a check may destroy, and of another with
// which ranks agree on when to go on.
struct Checked {
  std::unique_ptr<Transport>& end;
  Transport& aside;
};

struct Check {
  std::string name;
  int least_size;  // ranks it needs
  std::function<void(const Checked&)> run;
  bool where_it_blocks = true;  // also on transports whose test waits for others
};

inline std::ostream& operator<<(std::ostream& out, const Check& check) { return out << check.name; }

// Nothing here depends on how busy the machine is: what must come is waited for an hour, and what
// must not come a millisecond.
inline Deadline patient(std::string_view operation) { return Deadline::in(3600, operation); }
inline Deadline impatient(std::string_view operation) { return Deadline::in(0.001, operation); }

inline std::vector<std::uint8_t> message(std::size_t length, int from, int to) {
  std::vector<std::uint8_t> bytes(length);
  const Key key(static_cast<std::uint64_t>(1000 * from + to));
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::uint8_t>(key.bits(i));
  return bytes;
}

// What a call threw.
struct Said {
  Status status = Status::ok;
  int rank = kNobody;
  std::string what = "nothing";
};

template <class Call>
Said said_by(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.status(), error.rank(), error.what()};
  }
  return {};
}

inline void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
}

inline void exchange(Transport& t, const std::vector<Send>& sends,
                     const std::vector<Receive>& receives, const Deadline& deadline) {
  Conversation(t, deadline).exchange(sends, receives);
}

// Sends to and receives from each of these ranks one message of a length that both sides know.
template <class Length>
void exchange_with(Transport& t, const std::vector<int>& to, const std::vector<int>& from,
                   Length length) {
  std::vector<std::vector<std::uint8_t>> out, in;
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (const int peer : to) out.push_back(message(length(t.rank(), peer), t.rank(), peer));
  for (const int peer : from) in.emplace_back(length(peer, t.rank()));
  for (std::size_t i = 0; i < to.size(); ++i) sends.push_back({to[i], out[i]});
  for (std::size_t i = 0; i < from.size(); ++i)
    receives.push_back(Receive::exactly(from[i], in[i]));
  exchange(t, sends, receives, patient("a pattern"));
  for (std::size_t i = 0; i < from.size(); ++i)
    EXPECT_TRUE(in[i] == message(in[i].size(), from[i], t.rank()))
        << in[i].size() << " bytes from rank " << from[i] << " to " << t.rank();
}

inline int after(const Transport& t) { return (t.rank() + 1) % t.size(); }
inline int before(const Transport& t) { return (t.rank() + t.size() - 1) % t.size(); }

inline void ring_with(Transport& t, std::size_t length) {
  if (t.size() == 1) return;
  exchange_with(t, {after(t)}, {before(t)}, [&](int, int) { return length; });
}

inline std::vector<int> others(const Transport& t) {
  std::vector<int> ranks;
  for (int rank = 0; rank < t.size(); ++rank)
    if (rank != t.rank()) ranks.push_back(rank);
  return ranks;
}

// Nobody goes on before all have come.
inline void meet(Transport& t) {
  exchange_with(t, others(t), others(t), [](int, int) { return std::size_t{1}; });
}

inline void check_ring(const Checked& c) {
  for (const std::size_t length : {0U, 1U, 1000U, 100'000U}) ring_with(*c.end, length);
}

inline void check_large(const Checked& c) { ring_with(*c.end, 10 << 20); }

inline void check_all_to_all(const Checked& c) {
  exchange_with(*c.end, others(*c.end), others(*c.end), [](int from, int to) {
    return static_cast<std::size_t>(5000 * from + 3 * to);  // rank 0 sends nothing to itself
  });
}

// Rank 0 only sends, the others only receive; then the other way round.
inline void check_one_to_all(const Checked& c) {
  const auto length = [](int, int) { return std::size_t{70'000}; };
  const std::vector<int> root = {0}, none;
  const bool first = c.end->rank() == 0;
  exchange_with(*c.end, first ? others(*c.end) : none, first ? none : root, length);
  exchange_with(*c.end, first ? none : root, first ? others(*c.end) : none, length);
}

// Several in one exchange, and many exchanges.
inline void check_order(const Checked& c) {
  Transport& t = *c.end;
  constexpr std::uint32_t kAtOnce = 50;
  Conversation conversation(t, patient("many small messages"));
  for (std::uint32_t round = 0; round < 20; ++round) {
    std::vector<std::uint32_t> out(kAtOnce), in(kAtOnce);
    std::vector<Send> sends;
    std::vector<Receive> receives;
    for (std::uint32_t i = 0; i < kAtOnce; ++i) {
      out[i] = round * kAtOnce + i;
      sends.push_back({after(t), {reinterpret_cast<const std::uint8_t*>(&out[i]), 4}});
      receives.push_back(Receive::exactly(before(t), {reinterpret_cast<std::uint8_t*>(&in[i]), 4}));
    }
    conversation.exchange(sends, receives);
    EXPECT_EQ(in, out) << "round " << round;
  }
}

inline void check_peers(const Checked& c) {
  Transport& t = *c.end;
  for (const int peer : {-1, t.rank(), t.size()}) {
    Transfer transfer;
    const std::uint64_t attempt = t.open_attempt();
    transfer.sends = {{peer, {}}};
    EXPECT_THROW(t.start({.attempt = attempt}, transfer), UsageError) << peer;
    transfer.clear();
    transfer.receives = {Receive::exactly(peer, {})};
    EXPECT_THROW(t.start({.attempt = attempt}, transfer), UsageError) << peer;
    EXPECT_FALSE(transfer.flies());
    t.close_attempt(attempt);
    transfer.clear();
    EXPECT_THROW(t.start({.attempt = attempt}, transfer), UsageError) << "closed";
    EXPECT_THROW(t.test(transfer), UsageError) << "not started";
  }
}

// Rank r contributes r times this length.
inline void gather_multiples(Transport& t, std::size_t length) {
  const auto of = [&](int rank) {
    return message(length * static_cast<std::size_t>(rank), rank, rank);
  };
  std::vector<Buffer> all;
  Conversation(t, patient("bytes")).all_gather(of(t.rank()), all, 10 << 20);
  ASSERT_EQ(all.size(), static_cast<std::size_t>(t.size()));
  for (int rank = 0; rank < t.size(); ++rank)
    EXPECT_TRUE(std::ranges::equal(all[static_cast<std::size_t>(rank)].view(), of(rank)));
}

inline void check_gather(const Checked& c) {
  for (const std::size_t length : {0U, 1U, 999U, 4000U, 70'000U, 200'000U})
    gather_multiples(*c.end, length);
}

// The last rank sends too much: rank 0 refuses before it takes memory.
inline void check_most(const Checked& c) {
  Transport& t = *c.end;
  const int last = t.size() - 1;
  for (const std::uint64_t most : {100U, 100'000U}) {
    const std::vector<std::uint8_t> mine(most + 1);
    Buffer in;
    const Said said = said_by([&] {
      if (t.rank() == 0)
        exchange(t, {}, {Receive::sized(last, in, most)}, patient("a test"));
      else if (t.rank() == last)
        exchange(t, {{0, mine}}, {}, patient("a test"));
      else
        Conversation(t, patient("a test"));
    });
    if (t.rank() == 0) {
      EXPECT_EQ(said.what, "rank " + std::to_string(last) + " claims " + std::to_string(most + 1) +
                               " bytes where at most " + std::to_string(most) + " can be (a test)");
      EXPECT_EQ(said.rank, last);
      EXPECT_EQ(said.status, Status::data);
      EXPECT_TRUE(in.empty());
    }
    meet(c.aside);
  }
}

// The order of additions that conversation.h promises: each part from its owner on.
template <class T>
std::vector<T> ring_sum(const std::vector<std::vector<T>>& of_rank) {
  const std::size_t n = of_rank.size(), count = of_rank[0].size();
  std::vector<T> sum(count);
  for (std::size_t part = 0; part < n; ++part)
    for (std::size_t i = count * part / n; i < count * (part + 1) / n; ++i) {
      sum[i] = of_rank[part][i];
      for (std::size_t k = 1; k < n; ++k) sum[i] += of_rank[(part + k) % n][i];
    }
  return sum;
}

template <class T, class Values>
void expect_ring_sum(Transport& t, Values values) {
  std::vector<std::vector<T>> of_rank;
  for (int rank = 0; rank < t.size(); ++rank) of_rank.push_back(values(rank));
  std::vector<T> mine = of_rank[static_cast<std::size_t>(t.rank())];
  Conversation(t, patient("sums")).all_reduce(std::span<T>(mine));
  const std::vector<T> sum = ring_sum(of_rank);
  EXPECT_TRUE(mine.empty() || std::memcmp(mine.data(), sum.data(), sizeof(T) * sum.size()) == 0)
      << mine.size() << " values on rank " << t.rank();
}

inline void reduce_both(Transport& t, std::size_t count) {
  expect_ring_sum<float>(t, [&](int rank) {  // whose sums depend on the order
    return made_up(count, static_cast<std::uint64_t>(rank) + 1);
  });
  expect_ring_sum<std::int64_t>(t, [&](int rank) {
    std::vector<std::int64_t> values(count);
    std::iota(values.begin(), values.end(), std::int64_t{rank} << 40);
    return values;
  });
}

inline void check_reduce(const Checked& c) {
  for (const std::size_t count : {0U, 1U, 5U, 1000U, 30'001U}) reduce_both(*c.end, count);
}

// Where there is one, and else by a ring. Sums of whole numbers, as the order is the transport's.
inline void check_own_reduce(const Checked& c) {
  Transport& t = *c.end;
  for (const std::size_t count : {1U, 1000U, 100'000U}) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = static_cast<float>(i % 100) + static_cast<float>(t.rank());
    Conversation(t, patient("a sum")).reduce(values);
    const int n = t.size();
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(values[i], static_cast<float>(n) * static_cast<float>(i % 100) +
                               static_cast<float>(n * (n - 1) / 2))
          << i;
  }
}

inline void check_counters(const Checked& c) {
  Transport& t = *c.end;
  const auto peers = static_cast<std::uint64_t>(t.size() - 1);
  const auto expect = [&](std::uint64_t bytes, std::uint64_t rounds, const char* what) {
    EXPECT_EQ(t.bytes_sent(), bytes) << what << " on rank " << t.rank();
    EXPECT_EQ(t.rounds(), rounds) << what << " on rank " << t.rank();
  };
  expect(0, 0, "nothing");
  exchange(t, {}, {}, patient("nothing"));
  expect(0, 0, "an exchange of nothing");
  ring_with(t, 100);
  expect(kMessageHead + 100, 1, "a ring");
  std::vector<Buffer> all;
  Conversation(t, patient("a test")).all_gather(message(7, 0, 0), all, 100);
  std::uint64_t bytes = kMessageHead + 100 + peers * (kMessageHead + 7);
  expect(bytes, 2, "all_gather");
  std::vector<float> values(static_cast<std::size_t>(10 * t.size()), 1);
  Conversation(t, patient("a test")).all_reduce(values);
  bytes += 2 * peers * (kMessageHead + 40);
  expect(bytes, 2 + 2 * peers, "all_reduce");
  const bool first = t.rank() == 0;  // rounds are transfers that brought something
  exchange_with(t, first ? others(t) : std::vector<int>{},
                first ? std::vector<int>{} : std::vector{0},
                [](int, int) { return std::size_t{10}; });
  expect(bytes + (first ? peers * (kMessageHead + 10) : 0), 2 + 2 * peers + !first, "one to all");
}

// Rank 0 gets more from rank 1 than it expects, then less; short ones and long ones.
inline void check_lengths(const Checked& c) {
  Transport& t = *c.end;
  for (const std::size_t sent : {5U, 300'000U})
    for (const std::size_t expected : {sent - 2, sent + 1}) {
      const auto out = message(sent, 0, 0);
      std::vector<std::uint8_t> in(expected);
      Transfer transfer;
      transfer.operation = "a test";
      const std::uint64_t attempt = t.open_attempt();
      if (t.rank() == 1) transfer.sends = {{0, out}};
      if (t.rank() == 0) transfer.receives = {Receive::exactly(1, in)};
      t.start({.attempt = attempt}, transfer);
      const Said said = said_by([&] { t.wait(transfer, patient("a test")); });
      if (t.rank() == 0) {
        t.abort(attempt, 1, said.what);  // else its sender might wait for more to be taken
        EXPECT_EQ(said.what, "rank 1 sent " + std::to_string(sent) + " bytes where " +
                                 std::to_string(expected) + " are expected (a test)");
        EXPECT_EQ(said.status, Status::data);
        EXPECT_EQ(said.rank, 1);
      }
      meet(c.aside);
      t.close_attempt(attempt);
    }
}

// A message that never comes.
struct Missing {
  Missing(Transport& t, int from, std::uint64_t attempt, std::uint32_t unit = 0) : in(5) {
    transfer.operation = "a result";
    transfer.receives = {Receive::exactly(from, in)};
    t.start({.attempt = attempt, .unit = unit}, transfer);
  }
  std::vector<std::uint8_t> in;
  Transfer transfer;
};

// Rank 1 says nothing until the others have given up.
inline void check_silence(const Checked& c) {
  Transport& t = *c.end;
  const std::uint64_t attempt = t.open_attempt();
  if (t.rank() != 1) {
    Missing missing(t, 1, attempt);
    const Said said = said_by([&] { t.wait(missing.transfer, impatient("a result")); });
    expect_parts(said.what, {"rank 1 does not answer: rank " + std::to_string(t.rank()) +
                                 " waits for it to send within 0",
                             "(a result)"});
    EXPECT_EQ(said.rank, 1);
    EXPECT_EQ(said.status, Status::transport);
    EXPECT_FALSE(missing.transfer.flies());
  }
  meet(c.aside);
}

// Rank 1 takes no large message: whoever sends it one gives up too.
inline void check_deafness(const Checked& c) {
  Transport& t = *c.end;
  const std::uint64_t attempt = t.open_attempt();
  if (t.rank() == 0) {
    const auto out = message(8 << 20, 0, 1);
    Transfer transfer;
    transfer.operation = "a large message";
    transfer.sends = {{1, out}};
    t.start({.attempt = attempt}, transfer);
    const Said said = said_by([&] { t.wait(transfer, impatient("a large message")); });
    expect_parts(said.what, {"rank 1 does not answer: rank 0 waits for it to receive within 0",
                             "(a large message)"});
    EXPECT_EQ(said.rank, 1);
  }
  meet(c.aside);
}

// The last rank leaves: those who wait for it are told at once, those who start something with it
// later too.
inline void check_death(const Checked& c) {
  const int last = c.end->size() - 1;
  const bool stays = c.end->rank() != last;
  const std::uint64_t attempt = c.end->open_attempt();
  meet(c.aside);
  if (!stays) c.end.reset();
  for (std::uint32_t unit = 0; stays && unit < 2; ++unit) {
    Missing missing(*c.end, last, attempt, unit);
    const Said said = said_by([&] { c.end->wait(missing.transfer, patient("a result")); });
    EXPECT_EQ(said.what, "rank " + std::to_string(last) + " has left while rank " +
                             std::to_string(c.end->rank()) + " waits for it to send (a result)");
    EXPECT_EQ(said.rank, last);
  }
  meet(c.aside);
}

// ---- tags and attempts

inline const std::vector<std::size_t>& kinds_of_lengths() {
  static const std::vector<std::size_t> lengths = {0,    1,      39,      3960,      3961,
                                                   4097, 65'537, 100'000, 1'000'000, 20};
  return lengths;
}

// One transfer in a ring, whose length only the sender knows, and which says where it belongs.
struct Hop {
  Hop(Transport& t, std::uint32_t unit, std::uint32_t leg)
      : out(message(length_of(unit), t.rank(), static_cast<int>(unit + 10 * leg))),
        expected(message(length_of(unit), before(t), static_cast<int>(unit + 10 * leg))),
        tag{.attempt = 0, .unit = unit, .leg = leg} {
    transfer.operation = "a hop";
    transfer.sends = {{after(t), out}};
    transfer.receives = {Receive::sized(before(t), in, 1 << 20)};
  }
  static std::size_t length_of(std::uint32_t unit) {
    return kinds_of_lengths()[unit % kinds_of_lengths().size()];
  }
  std::vector<std::uint8_t> out, expected;
  Buffer in;
  Tag tag;
  Transfer transfer;
};

// Many at once, which every rank starts and asks after in another order.
inline void check_tags(const Checked& c) {
  Transport& t = *c.end;
  const std::uint64_t attempts[] = {t.open_attempt(), t.open_attempt()};
  std::vector<std::unique_ptr<Hop>> hops;
  for (std::uint32_t unit = 0; unit < 20; ++unit)
    for (std::uint32_t leg = 0; leg < 3; ++leg) {
      hops.push_back(std::make_unique<Hop>(t, unit, leg));
      hops.back()->tag.attempt = attempts[unit % 2];
    }
  std::mt19937_64 random(static_cast<std::uint64_t>(t.rank()));
  std::ranges::shuffle(hops, random);
  for (auto& hop : hops) t.start(hop->tag, hop->transfer);
  std::ranges::shuffle(hops, random);
  for (bool all = false; !all;
       t.idle(std::chrono::steady_clock::now() + std::chrono::hours(!all))) {
    all = true;
    for (auto& hop : hops) all &= hop->transfer.done() || t.test(hop->transfer);
  }
  for (auto& hop : hops)
    EXPECT_TRUE(std::ranges::equal(hop->in.view(), hop->expected))
        << "unit " << hop->tag.unit << ", leg " << hop->tag.leg;
  for (const std::uint64_t attempt : attempts) t.close_attempt(attempt);
}

// The same transfer again and again, with lengths that go up and down.
inline void check_reuse(const Checked& c) {
  Transport& t = *c.end;
  Hop hop(t, 0, 0);
  const std::uint64_t attempt = t.open_attempt();
  for (std::uint32_t i = 0; i < 30; ++i) {
    hop.out = message(Hop::length_of(i), t.rank(), 1);
    hop.transfer.sends[0].bytes = hop.out;
    t.start({.attempt = attempt, .unit = i}, hop.transfer);
    t.wait(hop.transfer, patient("a hop"));
    EXPECT_TRUE(std::ranges::equal(hop.in.view(), message(Hop::length_of(i), before(t), 1))) << i;
  }
  t.close_attempt(attempt);
}

// What was sent in an attempt that is over does not arrive in the next.
inline void check_stale(const Checked& c) {
  Transport& t = *c.end;
  for (const std::size_t length : {10U, 300'000U}) {
    const auto old = message(length, 7, 7), fresh = message(length, 8, 8);
    const std::uint64_t first = t.open_attempt();
    {
      Transfer unheard;
      unheard.sends = {{after(t), old}};
      t.start({.attempt = first}, unheard);
      EXPECT_FALSE(said_by([&] { t.test(unheard); }).status == Status::data);
      meet(c.aside);
      t.cancel(unheard);
    }
    t.close_attempt(first);
    const std::uint64_t second = t.open_attempt();
    EXPECT_EQ(second, first + 1);
    Buffer in;
    Transfer heard;
    heard.sends = {{after(t), fresh}};
    heard.receives = {Receive::sized(before(t), in, 1 << 20)};
    t.start({.attempt = second}, heard);
    t.wait(heard, patient("what is new"));
    EXPECT_TRUE(std::ranges::equal(in.view(), fresh));
    t.close_attempt(second);
  }
}

// What is sent in an attempt that others have not opened yet waits for them.
inline void check_early(const Checked& c) {
  Transport& t = *c.end;
  for (const std::size_t length : {10U, 300'000U}) {
    const auto out = message(length, 0, 0);
    Buffer in;
    Transfer transfer;
    if (t.rank() == 0) {
      for (const int peer : others(t)) transfer.sends.push_back({peer, out});
      t.start({.attempt = t.open_attempt()}, transfer);
      t.test(transfer);
    }
    meet(c.aside);
    if (t.rank() != 0) {
      transfer.receives = {Receive::sized(0, in, length)};
      t.start({.attempt = t.open_attempt()}, transfer);
    }
    if (transfer.flies()) t.wait(transfer, patient("what came early"));
    EXPECT_TRUE(t.rank() == 0 || std::ranges::equal(in.view(), out));
    meet(c.aside);
  }
}

// ---- errors

inline const Said& no_memory() {
  static const Said said{Status::transport, 0, "rank 0 cannot go on: no memory"};
  return said;
}

inline void expect_said(const Said& said, const Said& expected) {
  EXPECT_EQ(said.what, expected.what);
  EXPECT_EQ(said.rank, expected.rank);
  EXPECT_EQ(said.status, expected.status);
}

// All flights of all ranks end, whatever they wait for, and nothing can be started any more; other
// attempts go on.
inline void check_abort(const Checked& c) {
  Transport& t = *c.end;
  const std::uint64_t attempt = t.open_attempt(), another = t.open_attempt();
  const auto out = message(300'000, 0, 0);
  {
    Missing one(t, before(t), attempt, 0), two(t, after(t), attempt, 1);
    Transfer unheard;
    unheard.sends = {{after(t), out}};
    t.start({.attempt = attempt, .unit = 9}, unheard);
    EXPECT_FALSE(t.test(one.transfer));
    meet(c.aside);
    if (t.rank() == 0) t.abort(attempt, 0, "no memory");
    for (Transfer* transfer : {&one.transfer, &two.transfer, &unheard}) {
      expect_said(said_by([&] { t.wait(*transfer, patient("a result")); }), no_memory());
      EXPECT_FALSE(transfer->flies());
    }
    Missing again(t, before(t), attempt, 3);
    expect_said(said_by([&] { t.wait(again.transfer, patient("a result")); }), no_memory());
  }
  Hop hop(t, 7, 0);
  t.start({.attempt = another}, hop.transfer);
  t.wait(hop.transfer, patient("a hop"));
  t.close_attempt(attempt);
  t.close_attempt(another);
}

// An abort is remembered where the attempt was not opened yet.
inline void check_early_abort(const Checked& c) {
  Transport& t = *c.end;
  std::uint64_t attempt = 0;
  if (t.rank() == 0) t.abort(attempt = t.open_attempt(), 0, "no memory");
  meet(c.aside);
  if (t.rank() != 0) attempt = t.open_attempt();
  Missing missing(t, before(t), attempt);
  expect_said(said_by([&] { t.wait(missing.transfer, patient("a result")); }), no_memory());
  t.close_attempt(attempt);
  ring_with(t, 100);
}

inline void receive_from(Conversation& all, int rank) {
  std::vector<std::uint8_t> in(5);
  const auto receive = Receive::exactly(rank, in);
  all.exchange({}, {&receive, 1});
}

// Rank 1 sleeps until the others have given it up. When it comes it is told at once, by the
// sentence the others got; all try again, and the sum is right.
inline void check_retry(const Checked& c) {
  Transport& t = *c.end;
  std::vector<float> values(1000, static_cast<float>(t.rank() + 1));
  if (t.rank() == 1) meet(c.aside);
  const Said said = said_by([&] {
    Conversation all(t, t.rank() == 1 ? patient("a sum") : impatient("a sum"));
    if (t.rank() == 1)
      all.all_reduce(std::span(values));
    else
      receive_from(all, 1);
  });
  EXPECT_EQ(said.status, Status::transport);
  EXPECT_EQ(said.rank, 1) << said.what;
  expect_parts(said.what, {"rank 1 does not answer: rank "});
  if (t.rank() != 1) meet(c.aside);
  std::ranges::fill(values, static_cast<float>(t.rank() + 1));
  Conversation(t, patient("a sum")).all_reduce(std::span(values));
  EXPECT_EQ(values[500], static_cast<float>(t.size() * (t.size() + 1) / 2));
}

// A conversation that is left by an error of its own ends for all.
inline void check_left_conversation(const Checked& c) {
  Transport& t = *c.end;
  const Said said = said_by([&] {
    Conversation all(t, patient("a sum"));
    if (t.rank() == 0) throw UsageError("something else");
    std::vector<float> values(100);
    all.all_reduce(std::span(values));
  });
  EXPECT_EQ(said.rank, t.rank() == 0 ? kNobody : 0) << said.what;
  if (t.rank() != 0) expect_parts(said.what, {"rank 0 cannot go on", "(a sum)"});
  ring_with(t, 100);
}

// Nothing goes on, anywhere, ever.
inline void check_poison(const Checked& c) {
  Transport& t = *c.end;
  const std::uint64_t attempt = t.open_attempt(), another = t.open_attempt();
  Missing one(t, before(t), attempt), two(t, after(t), another);
  meet(c.aside);
  if (t.rank() == 0) t.poison(0, "no memory");
  for (Transfer* transfer : {&one.transfer, &two.transfer})
    expect_said(said_by([&] { t.wait(*transfer, patient("a result")); }), no_memory());
  expect_said(said_by([&] { t.open_attempt(); }), no_memory());
  meet(c.aside);
}

// After a cancel the memory is the caller's: what comes later does not touch it.
inline void check_cancel(const Checked& c) {
  Transport& t = *c.end;
  for (const std::size_t length : {10U, 300'000U}) {
    const std::uint64_t attempt = t.open_attempt();
    auto out = std::make_unique<std::vector<std::uint8_t>>(message(length, 0, 0));
    std::vector<std::uint8_t> in(length, 1);
    Transfer receives, sends;
    receives.receives = {Receive::exactly(before(t), in)};
    t.start({.attempt = attempt, .unit = 1}, receives);
    EXPECT_FALSE(t.test(receives));
    t.cancel(receives);
    t.cancel(receives);  // nothing more
    meet(c.aside);
    sends.sends = {{after(t), *out}};
    t.start({.attempt = attempt, .unit = 1}, sends);
    t.test(sends);
    t.cancel(sends);
    out.reset();
    meet(c.aside);
    EXPECT_EQ(in, std::vector<std::uint8_t>(length, 1));
    t.close_attempt(attempt);
  }
  ring_with(t, 1000);
}

// A transfer that flies is called off when it is destroyed, or its attempt is closed.
inline void check_ends(const Checked& c) {
  Transport& t = *c.end;
  const std::uint64_t attempt = t.open_attempt();
  auto missing = std::make_unique<Missing>(t, before(t), attempt, 0);
  Missing another(t, before(t), attempt, 1);
  EXPECT_THROW(t.start({.attempt = attempt, .unit = 2}, another.transfer), UsageError);
  missing.reset();
  t.close_attempt(attempt);
  EXPECT_FALSE(another.transfer.flies());
  EXPECT_FALSE(another.transfer.done());
  ring_with(t, 10);
}

// wake ends an idle, from another thread.
inline void check_wake(const Checked& c) {
  Transport& t = *c.end;
  const std::uint64_t attempt = t.open_attempt();
  Missing missing(t, before(t), attempt);
  EXPECT_FALSE(t.test(missing.transfer));
  std::thread other([&] { t.wake(); });
  t.idle(std::chrono::steady_clock::now() + std::chrono::hours(1));
  other.join();
  meet(c.aside);
  t.close_attempt(attempt);
}

inline const std::vector<Check>& conformance() {
  static const std::vector<Check> checks = {
      {"Ring", 2, check_ring},
      {"Large", 2, check_large},
      {"AllToAll", 2, check_all_to_all},
      {"OneToAll", 2, check_one_to_all},
      {"Order", 2, check_order},
      {"Peers", 1, check_peers},
      {"Gather", 1, check_gather},
      {"Most", 2, check_most},
      {"Reduce", 1, check_reduce},
      {"OwnReduce", 1, check_own_reduce},
      {"Counters", 2, check_counters},
      {"Lengths", 2, check_lengths},
      {"Silence", 4, check_silence},
      {"Deafness", 4, check_deafness},
      {"Death", 2, check_death},
      {"Tags", 2, check_tags, false},
      {"Reuse", 2, check_reuse},
      {"Stale", 2, check_stale, false},
      {"Early", 2, check_early, false},
      {"Abort", 2, check_abort, false},
      {"EarlyAbort", 2, check_early_abort, false},
      {"Retry", 2, check_retry, false},
      {"LeftConversation", 2, check_left_conversation, false},
      {"Poison", 2, check_poison, false},
      {"Cancel", 2, check_cancel, false},
      {"Ends", 2, check_ends},
      {"Wake", 2, check_wake, false},
  };
  return checks;
}

}  // namespace laconic::testing
