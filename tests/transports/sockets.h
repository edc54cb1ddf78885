// Ranks of one test over sockets.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>

#include "laconic/transports/sockets.h"
#include "tests/ranks.h"

namespace laconic::testing {

using Pair = std::array<int, 2>;

inline Pair unix_pair() {
  Pair pair = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  return pair;
}

inline sockaddr_in loopback(int port = 0) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

// A socket that listens on the loopback, and where.
inline std::pair<int, sockaddr_in> listening() {
  sockaddr_in address = loopback();
  socklen_t length = sizeof address;
  auto* const as_any = reinterpret_cast<sockaddr*>(&address);
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(::bind(listener, as_any, length), 0);
  EXPECT_EQ(::listen(listener, 1), 0);
  EXPECT_EQ(::getsockname(listener, as_any, &length), 0);
  return {listener, address};
}

// Every address 127.x.x.x is this machine, under as many names.
inline Pair tcp_pair_from(std::uint32_t own_address) {
  const auto [listener, address] = listening();
  Pair pair = {::socket(AF_INET, SOCK_STREAM, 0), -1};
  sockaddr_in own = loopback();
  own.sin_addr.s_addr = htonl(own_address);
  EXPECT_EQ(::bind(pair[0], reinterpret_cast<const sockaddr*>(&own), sizeof own), 0);
  EXPECT_EQ(::connect(pair[0], reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  pair[1] = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  return pair;
}

inline Pair tcp_pair() { return tcp_pair_from(INADDR_LOOPBACK); }

// By rank: what leads to each other rank.
inline std::vector<std::vector<int>> wires(int size, const std::function<Pair()>& make) {
  const auto n = static_cast<std::size_t>(size);
  std::vector<std::vector<int>> descriptors(n, std::vector<int>(n, -1));
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < a; ++b) {
      const Pair pair = make();
      descriptors[a][b] = pair[0];
      descriptors[b][a] = pair[1];
    }
  return descriptors;
}

inline Ends ends_over(const std::vector<std::vector<int>>& wires,
                      const SocketsOptions& options = {}) {
  Ends ends;
  const int size = static_cast<int>(wires.size());
  for (int rank = 0; rank < size; ++rank)
    ends.push_back(
        make_sockets_transport(rank, size, wires[static_cast<std::size_t>(rank)], options));
  return ends;
}

inline Ends unix_ends(int size) { return ends_over(wires(size, unix_pair)); }
inline Ends tcp_ends(int size) { return ends_over(wires(size, tcp_pair)); }

}  // namespace laconic::testing
