// What only sockets promise: nothing a peer sends, or stops sending, does harm beyond its own rank.
#include "tests/transports/sockets.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <ctime>

#include "laconic/transports/head.h"
#include "tests/transports/conformance.h"

namespace laconic::testing {
namespace {

// The end of rank 0 of 2, and the bare socket of who should be rank 1.
struct Stranger {
  explicit Stranger(const SocketsOptions& options = {}, Pair pair = unix_pair()) : socket(pair[1]) {
    end = make_sockets_transport(0, 2, std::array{-1, pair[0]}, options);
  }
  ~Stranger() { close(); }

  void say(ByteView bytes) {
    ASSERT_EQ(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void say(const Head& head) { say(write_head(head)); }
  void greet(std::uint32_t rank = 1, std::uint32_t size = 2) {
    HeadBytes hello;
    ASSERT_EQ(::recv(socket, hello.data(), hello.size(), MSG_WAITALL), ssize_t{kMessageHead});
    Head head = read_head(hello, 0);
    head.tag.unit = rank;
    head.tag.leg = size;
    say(head);
  }
  void close() {
    if (socket >= 0) ::close(socket);
    socket = -1;
  }

  // What rank 0 says when it waits for five bytes.
  Said heard() {
    Missing missing(*end, 1, end->open_attempt());
    return said_by([&] { end->wait(missing.transfer, patient("a result")); });
  }

  int socket;
  std::unique_ptr<Transport> end;
};

void expect_blamed(const Said& said, const std::string& what, Status status = Status::data) {
  EXPECT_EQ(said.what, what);
  EXPECT_EQ(said.rank, 1);
  EXPECT_EQ(said.status, status);
}

const std::string kLeft = "rank 1 has left while rank 0 waits for it to send (a result)";

TEST(Sockets, GarbageIsNamedByItsRank) {
  Stranger stranger;
  const auto garbage = message(1000, 1, 2);
  stranger.say(garbage);
  expect_blamed(stranger.heard(), "rank 1 sent what is no message of this library");
  expect_blamed(stranger.heard(), "rank 1 sent what is no message of this library");
}

TEST(Sockets, WhoIsAtTheOtherEndIsChecked) {
  Stranger stranger;
  stranger.greet(3, 5);
  expect_blamed(stranger.heard(), "where rank 1 of 2 should be is rank 3 of 5");
  Stranger other;
  other.say(Head{.tag = {}});
  expect_blamed(other.heard(), "rank 1 speaks another version of this protocol");
}

TEST(Sockets, HeadsThatCannotBeAreRefused) {
  const std::pair<Head, std::string> cases[] = {
      {{.tag = {}, .length = 5, .sequence = 7}, "a piece of no message"},
      {{.tag = {}, .length = 5, .sequence = ~std::uint64_t{0}}, "a piece of no message"},
      {{.kind = Head::Kind::abort, .tag = {}, .length = std::uint64_t{1} << 60},
       "a reason that is none"},
      {{.kind = Head::Kind::leave, .tag = {}, .length = 1}, "a reason that is none"}};
  for (const auto& [head, what] : cases) {
    Stranger stranger;
    stranger.greet();
    stranger.say(head);
    expect_blamed(stranger.heard(), "rank 1 sent " + what);
  }
  Stranger changed;
  changed.greet();
  changed.say({.tag = {.attempt = 7}, .length = 300 << 10});
  std::thread rest([&] {
    changed.say(message(256 << 10, 0, 0));
    changed.say({.tag = {.attempt = 8}, .length = 300 << 10, .sequence = 256 << 10});
  });
  expect_blamed(changed.heard(), "rank 1 sent a piece of another message");
  rest.join();
  Stranger absurd;
  absurd.greet();
  absurd.say({.kind = Head::Kind::abort, .tag = {}, .length = 4});
  absurd.say(std::array<std::uint8_t, 4>{9, 0, 0, 0});
  expect_blamed(absurd.heard(), "rank 1 blames a rank that is none");
  Stranger passing;
  passing.greet();
  passing.say({.kind = Head::Kind::poison, .tag = {}, .length = 4, .sequence = 2});
  passing.say(std::array<std::uint8_t, 4>{0, 0, 0, 0});
  expect_blamed(passing.heard(), "rank 1 blames a rank that is none");
}

// Rank 0's word has not come to rank 2 yet when rank 1, which has heard it, leaves.
TEST(Sockets, WhoHearsOfAnEndPassesItOn) {
  for (const auto kind : {Head::Kind::abort, Head::Kind::poison}) {
    const auto all = wires(3, unix_pair);
    auto one = make_sockets_transport(1, 3, all[1]), two = make_sockets_transport(2, 3, all[2]);
    for (const int bare : {all[0][1], all[0][2]}) {
      HeadBytes hello;
      ASSERT_EQ(::recv(bare, hello.data(), hello.size(), MSG_WAITALL), ssize_t{kMessageHead});
      Head own = read_head(hello, 0);
      own.tag.unit = 0;
      const HeadBytes answer = write_head(own);
      ASSERT_EQ(::send(bare, answer.data(), answer.size(), 0), ssize_t{kMessageHead});
    }
    const Buffer reason = write_reason(0, "no memory");
    Buffer word;
    word.append(write_head({.kind = kind, .tag = {}, .length = reason.size()}));
    word.append(reason.view());
    ASSERT_EQ(::send(all[0][1], word.data(), word.size(), 0), static_cast<ssize_t>(word.size()));
    const auto heard = [](Transport& end, int from) {
      Missing missing(end, from, end.open_attempt());
      return said_by([&] { end.wait(missing.transfer, patient("a result")); });
    };
    expect_said(heard(*one, 0), no_memory());
    one.reset();
    expect_said(heard(*two, 1), no_memory());
    ::close(all[0][1]);
    ::close(all[0][2]);
  }
}

// Of a length nobody has memory for: what is awaited is refused, what is not is held as it comes.
TEST(Sockets, HugeLengthsTakeNoMemory) {
  Stranger stranger;
  stranger.greet();
  stranger.say({.tag = {.attempt = 0}, .length = std::uint64_t{1} << 62});
  expect_blamed(stranger.heard(),
                "rank 1 sent 4611686018427387904 bytes where 5 are expected (a result)");
  Stranger early;
  early.greet();
  early.say({.tag = {.attempt = 99}, .length = std::uint64_t{1} << 62});
  early.close();
  expect_blamed(early.heard(), kLeft, Status::transport);
}

TEST(Sockets, HalfAMessageIsNone) {
  for (const std::size_t bytes : {0U, 3U})
    for (const auto& pair : {unix_pair, tcp_pair}) {
      Stranger stranger({}, pair());
      stranger.greet();
      stranger.say({.tag = {}, .length = 5});
      stranger.say(message(bytes, 0, 0));
      stranger.close();
      expect_blamed(stranger.heard(), kLeft, Status::transport);
    }
}

TEST(Sockets, WhatNobodyAsksForIsHeldUpToABound) {
  Stranger stranger({.held_bytes = 1000});
  stranger.greet();
  for (std::uint32_t i = 0; i < 11; ++i) {
    stranger.say({.tag = {.attempt = 50, .unit = i}, .length = 100});
    stranger.say(message(100, 0, 0));
  }
  expect_blamed(stranger.heard(),
                "rank 1 sends more than 1000 bytes or 65536 messages nobody asks for");
}

// Every way to damage the beginning of a conversation ends in words, or in silence that is named.
TEST(Sockets, TurnedBitsEndInWords) {
  for (std::size_t bit = 0; bit < 8 * kMessageHead; ++bit) {
    Stranger stranger;
    stranger.greet();
    HeadBytes head = write_head({.tag = {}, .length = 5});
    head[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    stranger.say(head);
    stranger.say(message(5, 0, 0));
    stranger.close();
    const Said said = stranger.heard();
    EXPECT_EQ(said.rank, 1) << said.what << ", bit " << bit;
  }
}

TEST(Sockets, DescriptorsAreChecked) {
  const Pair pair = unix_pair();
  const int file = ::open("/dev/null", O_RDWR), alone = ::socket(AF_INET, SOCK_STREAM, 0);
  const auto refused = [](int rank, int size, std::vector<int> descriptors) {
    return message_of<UsageError>([&] { make_sockets_transport(rank, size, descriptors); });
  };
  const std::string stream = "; allowed: a connected stream socket";
  for (const int descriptor : {file, alone, -1, 9999})
    EXPECT_EQ(refused(0, 2, {-1, descriptor}),
              "descriptor " + std::to_string(descriptor) + " for rank 1" + stream);
  EXPECT_EQ(refused(0, 3, {-1, pair[0], pair[0]}),
            "descriptor " + std::to_string(pair[0]) + " for several ranks; allowed: one for each");
  EXPECT_EQ(refused(0, 2, {pair[0], pair[1]}),
            "descriptor " + std::to_string(pair[0]) + " for rank 0 itself; allowed: -1");
  expect_parts(refused(2, 2, {-1, -1}), {"rank 2 of 2 with 2 descriptors; allowed: "});
  expect_parts(refused(0, 0, {}), {"rank 0 of 0 with 0 descriptors; allowed: "});
  EXPECT_EQ(::send(pair[0], "x", 1, 0), 1);  // still the caller's
  const auto end = make_sockets_transport(0, 2, std::array{-1, pair[0]});
  EXPECT_EQ(::fcntl(pair[0], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  for (const int descriptor : {file, alone, pair[1]}) ::close(descriptor);
}

// A child that was forked refuses, and its end does not close the parent's connections.
TEST(Sockets, AForkedChildRefuses) {
  Ends ends = tcp_ends(2);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = said_by([&] { ends[0]->open_attempt(); }).status == Status::usage;
    ends.clear();
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  expect_no_errors(with_ends(std::move(ends), [](auto& end) { ring_with(*end, 1000); }));
}

// A long message that is cut off makes room for what comes after it, and is none.
TEST(Sockets, AMessageThatIsCutOffIsNone) {
  Ends aside = make_thread_transports(2);
  expect_no_errors(with_ends(unix_ends(2), [&](std::unique_ptr<Transport>& end) {
    Transport& apart = *aside[static_cast<std::size_t>(end->rank())];
    const std::uint64_t attempt = end->open_attempt();
    const auto out = message(3 << 20, 0, 1), last = message(70'000, 5, 5);
    Buffer in;
    Transfer transfer;
    if (end->rank() == 0) {
      transfer.sends = {{1, out}};
      end->start({.attempt = attempt}, transfer);
      meet(apart);  // some of it is under way
      end->cancel(transfer);
      transfer.sends = {{1, last}};
    } else {
      transfer.receives = {Receive::sized(0, in, 4 << 20)};
      meet(apart);
    }
    end->start({.attempt = attempt}, transfer);
    end->wait(transfer, patient("what is whole"));
    if (end->rank() == 1) {
      EXPECT_TRUE(std::ranges::equal(in.view(), last));
    }
    meet(apart);
  }));
}

// 0 waits for 1, 1 for 2, and 2 for nobody: it is the one, as all hear before they give up.
TEST(Sockets, WhoHoldsAllUpIsNamed) {
  Ends aside = make_thread_transports(3);
  expect_no_errors(with_ends(unix_ends(3), [&](std::unique_ptr<Transport>& end) {
    Transport& apart = *aside[static_cast<std::size_t>(end->rank())];
    const std::uint64_t attempt = end->open_attempt();
    if (end->rank() != 2) {
      Missing missing(*end, end->rank() + 1, attempt);
      const Said said = said_by([&] { end->wait(missing.transfer, Deadline::in(2, "a result")); });
      EXPECT_EQ(said.rank, 2) << said.what;
    }
    meet(apart);
  }));
}

TEST(Sockets, AWaitingRankLeavesItsCoreToOthers) {
  Ends ends = tcp_ends(2);
  Missing missing(*ends[0], 1, ends[0]->open_attempt());
  const std::clock_t before = std::clock();
  EXPECT_EQ(said_by([&] { ends[0]->wait(missing.transfer, Deadline::in(0.5, "a result")); }).rank,
            1);
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.1);
}

// Ranks as processes, of which one is killed at any moment: the others all name it.
TEST(Sockets, AKilledProcessIsNamedByAll) {
  constexpr int kRanks = 4;
  for (int round = 0; round < 20; ++round) {
    const int victim = round % kRanks;
    const auto all = wires(kRanks, round % 2 ? tcp_pair : unix_pair);
    std::vector<pid_t> children;
    for (int rank = 0; rank < kRanks; ++rank) {
      children.push_back(::fork());
      if (children.back() != 0) continue;
      for (int other = 0; other < kRanks; ++other)
        for (const int wire : all[static_cast<std::size_t>(other)])
          if (other != rank && wire >= 0) ::close(wire);
      const Said said = said_by([&] {
        const auto end = make_sockets_transport(rank, kRanks, all[static_cast<std::size_t>(rank)]);
        std::vector<float> values(50'000, 1);
        for (;;) Conversation(*end, Deadline::in(60, "a sum")).all_reduce(std::span(values));
      });
      if (said.rank != victim) std::fprintf(stderr, "rank %d: %s\n", rank, said.what.c_str());
      ::_exit(said.rank == victim ? 0 : 1);
    }
    for (const auto& of_rank : all)
      for (const int wire : of_rank) ::close(wire);
    ::usleep(static_cast<useconds_t>(Key(7).bits(static_cast<std::uint64_t>(round)) % 30'000));
    ::kill(children[static_cast<std::size_t>(victim)], SIGKILL);
    for (int rank = 0; rank < kRanks; ++rank) {
      int status = -1;
      EXPECT_EQ(::waitpid(children[static_cast<std::size_t>(rank)], &status, 0),
                children[static_cast<std::size_t>(rank)]);
      EXPECT_EQ(rank == victim || status == 0, true) << "rank " << rank << " in round " << round;
    }
  }
}

// What the system may keep of what rank 0 sends to rank 1.
int send_buffer(Pair pair, std::uint32_t near_microseconds) {
  const auto ends =
      ends_over({{-1, pair[0]}, {pair[1], -1}}, {.near_microseconds = near_microseconds});
  int bytes = 0;
  socklen_t length = sizeof bytes;
  EXPECT_EQ(::getsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &bytes, &length), 0);
  return bytes;
}

TEST(Sockets, LittleIsUnderWayToAnotherMachineThatIsNear) {
  constexpr std::uint32_t kAnother = INADDR_LOOPBACK + 1, kAlways = 1U << 30;
  constexpr int kLittle = 2 << 16;  // the system doubles what it is told
  EXPECT_EQ(send_buffer(tcp_pair_from(kAnother), kAlways), kLittle);
  EXPECT_GT(send_buffer(tcp_pair_from(kAnother), 0), kLittle) << "far: the system decides";
  EXPECT_GT(send_buffer(tcp_pair(), kAlways), kLittle) << "the same machine";
  EXPECT_EQ(send_buffer(unix_pair(), kAlways), send_buffer(unix_pair(), 0));
}

}  // namespace
}  // namespace laconic::testing
