// Ranks that find each other, and who is kept out.
#include "tests/transports/conformance.h"
#include "tests/transports/sockets.h"

namespace laconic::testing {
namespace {

// A port that was free a moment ago.
int free_port() {
  const auto [listener, address] = listening();
  ::close(listener);
  return ntohs(address.sin_port);
}

// What each rank of those that come says; the others never come.
template <class Body>
std::vector<Said> join_as(int size, const std::vector<int>& ranks, const Meeting& meeting,
                          Body body) {
  std::vector<Said> said(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back(
        [&, i] { said[i] = said_by([&] { body(*join_sockets(ranks[i], size, meeting)); }); });
  for (auto& thread : threads) thread.join();
  return said;
}

Meeting at_free_port(double seconds = 60) {
  return {.port = free_port(), .token = "job 7", .timeout_seconds = seconds};
}

int connected_to(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = loopback(port);
  while (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    std::this_thread::yield();
  return socket;
}

void all_reach_all(Transport& end) {
  meet(end);
  ring_with(end, 100'000);
}

void expect_all_well(const std::vector<Said>& said) {
  for (const Said& one : said) EXPECT_EQ(one.what, "nothing");
}

TEST(SocketsJoin, AllReachAll) {
  for (const int size : {1, 2, 5}) {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    expect_all_well(join_as(size, ranks, at_free_port(), all_reach_all));
  }
}

TEST(SocketsJoin, WhoHasNotComeIsNamed) {
  const Meeting meeting = at_free_port(0.5);
  const std::string missing = "rank 1, rank 3 have not come within 0.5 s (joining at 127.0.0.1:" +
                              std::to_string(meeting.port) + ")";
  const auto said = join_as(4, {0, 2}, meeting, all_reach_all);
  EXPECT_EQ(said[0].what, missing);
  EXPECT_EQ(said[0].rank, 1);
  EXPECT_EQ(said[0].status, Status::transport);
  expect_parts(said[1].what, {"rank 0 at 127.0.0.1", missing});
}

TEST(SocketsJoin, WithoutRankZeroTheOthersSaySo) {
  const auto said = join_as(2, {1}, at_free_port(0.2), all_reach_all);
  expect_parts(said[0].what, {"rank 0 cannot be reached at 127.0.0.1:", "within 0.2 s"});
  EXPECT_EQ(said[0].rank, 0);
}

// Who says nothing, who talks of something else, who hangs up in the middle.
TEST(SocketsJoin, StrangersDoNoHarm) {
  const Meeting meeting = at_free_port();
  std::thread strangers([&] {
    const int silent = connected_to(meeting.port), half = connected_to(meeting.port),
              other = connected_to(meeting.port);
    EXPECT_EQ(::send(half, "LCJ1", 4, MSG_NOSIGNAL), 4);
    ::close(half);
    const std::string request = "GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n" + std::string(100, ' ');
    EXPECT_GT(::send(other, request.data(), request.size(), MSG_NOSIGNAL), 0);
    char byte;
    EXPECT_LE(::recv(other, &byte, 1, 0), 0);  // dropped without a word
    expect_all_well(join_as(3, {1, 2}, meeting, all_reach_all));
    ::close(silent);
    ::close(other);
  });
  expect_all_well(join_as(3, {0}, meeting, all_reach_all));
  strangers.join();
}

TEST(SocketsJoin, AnotherRunIsTurnedAway) {
  const Meeting meeting = at_free_port();
  std::thread others([&] {
    Meeting wrong = meeting;
    wrong.token = "job 8";
    const std::string at = "rank 0 at 127.0.0.1:" + std::to_string(meeting.port) + " says: ";
    EXPECT_EQ(said_by([&] { join_sockets(1, 2, wrong); }).what,
              at + "rank 1 is of another run: its token is another one");
    EXPECT_EQ(said_by([&] { join_sockets(1, 3, meeting); }).what,
              at + "rank 1 is one of 3 ranks, not of 2");
    expect_all_well(join_as(2, {1}, meeting, all_reach_all));
  });
  expect_all_well(join_as(2, {0}, meeting, all_reach_all));
  others.join();
}

TEST(SocketsJoin, ARankComesOnce) {
  const Meeting meeting = at_free_port();
  std::thread zero([&] { expect_all_well(join_as(3, {0}, meeting, all_reach_all)); });
  std::vector<Said> twice(2);
  std::vector<std::thread> ones;
  std::atomic<int> refused = 0;
  for (Said& said : twice)
    ones.emplace_back([&] {
      said = said_by([&] { all_reach_all(*join_sockets(1, 3, meeting)); });
      refused += said.status != Status::ok;
    });
  while (refused == 0) std::this_thread::yield();  // one is there, the other was turned away
  expect_all_well(join_as(3, {2}, meeting, all_reach_all));
  for (auto& one : ones) one.join();
  zero.join();
  EXPECT_EQ(refused, 1);
  for (const Said& said : twice)
    if (said.status != Status::ok) expect_parts(said.what, {"says: rank 1 is here already"});
}

TEST(SocketsJoin, APortInUseIsSaid) {
  const auto [listener, address] = listening();
  const Meeting meeting{.port = ntohs(address.sin_port)};
  expect_parts(said_by([&] { join_sockets(0, 2, meeting); }).what,
               {"cannot listen at 127.0.0.1:", "Address already in use"});
  ::close(listener);
}

// What answers there is something else.
TEST(SocketsJoin, AnotherServiceIsNoRank) {
  const auto bound = listening();
  std::thread service([&, listener = bound.first] {
    const int guest = ::accept(listener, nullptr, nullptr);
    EXPECT_GT(::send(guest, "220 mail.example ESMTP ready\r\n", 30, MSG_NOSIGNAL), 0);
    char bytes[64];
    EXPECT_GT(::recv(guest, bytes, sizeof bytes, MSG_WAITALL), 0);
    ::close(guest);
  });
  const Said said = said_by([&] { join_sockets(1, 2, {.port = ntohs(bound.second.sin_port)}); });
  expect_parts(said.what, {"what answers at 127.0.0.1:", " is no rank of this library"});
  EXPECT_EQ(said.status, Status::data);
  service.join();
  ::close(bound.first);
}

TEST(SocketsJoin, ArgumentsAreChecked) {
  const auto refused = [](int rank, int size, const Meeting& meeting) {
    return message_of<UsageError>([&] { join_sockets(rank, size, meeting); });
  };
  EXPECT_EQ(refused(2, 2, {.port = 1}), "rank 2 of 2; allowed: 0 to size - 1, size 1 to 65536");
  EXPECT_EQ(refused(0, 2, {.port = 70000}), "port 70000; allowed: 1 to 65535");
  expect_parts(refused(0, 2, {.port = 1, .timeout_seconds = 0}), {"a time-out of 0"});
  expect_parts(
      said_by([] { join_sockets(1, 2, {.host = "no.such.host.invalid", .port = 1}); }).what,
      {"no address for the host 'no.such.host.invalid'"});
}

}  // namespace
}  // namespace laconic::testing
