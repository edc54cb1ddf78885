// What every transport must do, as checks that one rank runs and all ranks run together: in threads
// (transport_test.cpp) and in processes (mpi/conformance.cpp).
#pragma once

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>

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
};

inline std::ostream& operator<<(std::ostream& out, const Check& check) { return out << check.name; }

inline Deadline patient(std::string_view operation) { return Deadline::in(120, operation); }
constexpr double kShort = 3;  // seconds, where a time-out is what is checked

inline std::vector<std::uint8_t> message(std::size_t length, int from, int to) {
  std::vector<std::uint8_t> bytes(length);
  const Key key(static_cast<std::uint64_t>(1000 * from + to));
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::uint8_t>(key.bits(i));
  return bytes;
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
  for (std::size_t i = 0; i < from.size(); ++i) receives.push_back({from[i], in[i]});
  t.exchange(sends, receives, patient("a pattern"));
  for (std::size_t i = 0; i < from.size(); ++i)
    EXPECT_TRUE(in[i] == message(in[i].size(), from[i], t.rank()))
        << in[i].size() << " bytes from rank " << from[i] << " to " << t.rank();
}

inline void ring_with(Transport& t, std::size_t length) {
  if (t.size() == 1) return;
  exchange_with(t, {(t.rank() + 1) % t.size()}, {(t.rank() + t.size() - 1) % t.size()},
                [&](int, int) { return length; });
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
  const int next = (t.rank() + 1) % t.size(), before = (t.rank() + t.size() - 1) % t.size();
  constexpr std::uint32_t kAtOnce = 50;
  for (std::uint32_t round = 0; round < 20; ++round) {
    std::vector<std::uint32_t> out(kAtOnce), in(kAtOnce);
    std::vector<Send> sends;
    std::vector<Receive> receives;
    for (std::uint32_t i = 0; i < kAtOnce; ++i) {
      out[i] = round * kAtOnce + i;
      sends.push_back({next, {reinterpret_cast<const std::uint8_t*>(&out[i]), 4}});
      receives.push_back({before, {reinterpret_cast<std::uint8_t*>(&in[i]), 4}});
    }
    t.exchange(sends, receives, patient("many small messages"));
    EXPECT_EQ(in, out) << "round " << round;
  }
}

inline void check_peers(const Checked& c) {
  for (const int peer : {-1, c.end->rank(), c.end->size()}) {
    const Send send{peer, {}};
    EXPECT_THROW(c.end->exchange({&send, 1}, {}, patient("a test")), UsageError) << peer;
  }
}

// Rank r contributes r times this length.
inline void gather_multiples(Transport& t, std::size_t length) {
  const auto of = [&](int rank) {
    return message(length * static_cast<std::size_t>(rank), rank, rank);
  };
  std::vector<Buffer> all;
  t.all_gather(of(t.rank()), all, 10 << 20, patient("bytes"));
  ASSERT_EQ(all.size(), static_cast<std::size_t>(t.size()));
  for (int rank = 0; rank < t.size(); ++rank)
    EXPECT_TRUE(std::ranges::equal(all[static_cast<std::size_t>(rank)].view(), of(rank)));
}

inline void check_gather(const Checked& c) {
  for (const std::size_t length : {0U, 1U, 999U, 200'000U}) gather_multiples(*c.end, length);
}

// The last rank claims too much: all others refuse before they take memory.
inline void check_most(const Checked& c) {
  Transport& t = *c.end;
  const int last = t.size() - 1;
  const std::vector<std::uint8_t> mine(t.rank() == last ? 101 : 100);
  std::vector<Buffer> all;
  EXPECT_EQ(message_of<DataError>([&] { t.all_gather(mine, all, 100, patient("a test")); }),
            "rank " + std::to_string(last) + " claims 101 bytes where at most 100 can be (a test)");
  meet(c.aside);
}

// The order of additions that transport.h promises: each part from its owner on.
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
  t.all_reduce(std::span<T>(mine), patient("sums"));
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

inline void check_counters(const Checked& c) {
  Transport& t = *c.end;
  const auto peers = static_cast<std::uint64_t>(t.size() - 1);
  const auto expect = [&](std::uint64_t bytes, std::uint64_t rounds, const char* what) {
    EXPECT_EQ(t.bytes_sent(), bytes) << what << " on rank " << t.rank();
    EXPECT_EQ(t.rounds(), rounds) << what << " on rank " << t.rank();
  };
  expect(0, 0, "nothing");
  t.exchange({}, {}, patient("nothing"));
  expect(0, 0, "an exchange of nothing");
  ring_with(t, 100);
  expect(100, 1, "a ring");
  std::vector<Buffer> all;
  t.all_gather(message(7, 0, 0), all, 100, patient("a test"));
  std::uint64_t bytes = 100 + peers * (8 + 7);
  expect(bytes, 3, "all_gather");
  std::vector<float> values(static_cast<std::size_t>(10 * t.size()), 1);
  t.all_reduce(values, patient("a test"));
  bytes += 2 * peers * 40;
  expect(bytes, 3 + 2 * peers, "all_reduce");
}

inline void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
}

// Rank 0 gets more from rank 1 than it expects, rank 2 less from rank 3.
inline void check_lengths(const Checked& c) {
  Transport& t = *c.end;
  meet(t);
  const int peer = t.rank() ^ 1;
  if (peer < t.size() && t.rank() % 2 == 1) {
    const auto out = message(5, 0, 0);
    const Send send{peer, out};
    try {  // whether the sender is told that it was not understood is the transport's affair
      t.exchange({&send, 1}, {}, Deadline::in(kShort, "a test"));
    } catch (const TransportError&) {
    }
  } else if (peer < t.size()) {
    std::vector<std::uint8_t> in(t.rank() == 0 ? 3 : 6);
    const Receive receive{peer, in};
    expect_parts(message_of<TransportError>([&] {
                   t.exchange({}, {&receive, 1}, patient("a test"));
                 }),
                 {"rank " + std::to_string(peer) + " sent ", "expects", "(a test)"});
  }
  meet(c.aside);
}

// Rank 1 says nothing until the others have given up.
inline void check_silence(const Checked& c) {
  Transport& t = *c.end;
  meet(t);
  if (t.rank() != 1) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<Buffer> all;
    const std::string error = message_of<TransportError>([&] {
      t.all_gather(message(5, 0, 0), all, 100, Deadline::in(kShort, "all_gather of frames"));
    });
    expect_parts(error, {"rank 1", "not answer", "within 3 s", "(all_gather of frames)"});
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::duration<double>(kShort));
  }
  meet(c.aside);
}

// Rank 1 takes no large message: whoever sends it one gives up too.
inline void check_deafness(const Checked& c) {
  Transport& t = *c.end;
  meet(t);
  if (t.rank() == 0) {
    const auto out = message(8 << 20, 0, 1);
    const Send send{1, out};
    expect_parts(message_of<TransportError>([&] {
                   t.exchange({&send, 1}, {}, Deadline::in(kShort, "a large message"));
                 }),
                 {"rank 1", "not answer", "to receive", "(a large message)"});
  }
  meet(c.aside);
}

// The last rank dies: those who wait for it stop, at once or when their time is over.
inline void check_death(const Checked& c) {
  const int last = c.end->size() - 1;
  meet(*c.end);
  if (c.end->rank() == last) {
    c.end.reset();
  } else {
    std::vector<std::uint8_t> in(5);
    const Receive receive{last, in};
    expect_parts(message_of<TransportError>([&] {
                   c.end->exchange({}, {&receive, 1}, Deadline::in(kShort, "a result"));
                 }),
                 {"rank " + std::to_string(last) + " ", "to send", "(a result)"});
  }
  meet(c.aside);
}

inline const std::vector<Check>& conformance() {
  static const std::vector<Check> checks = {
      {"Ring", 2, check_ring},           {"Large", 2, check_large},
      {"AllToAll", 2, check_all_to_all}, {"OneToAll", 2, check_one_to_all},
      {"Order", 2, check_order},         {"Peers", 1, check_peers},
      {"Gather", 1, check_gather},       {"Most", 2, check_most},
      {"Reduce", 1, check_reduce},       {"Counters", 2, check_counters},
      {"Lengths", 4, check_lengths},     {"Silence", 4, check_silence},
      {"Deafness", 4, check_deafness},   {"Death", 2, check_death},
  };
  return checks;
}

}  // namespace laconic::testing
