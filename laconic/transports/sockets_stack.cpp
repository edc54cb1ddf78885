// Seconds of the two threads, which the system counts with what it does on their behalf: on the
// loopback that is all of it, both ends of every message.
#include "laconic/transports/sockets_stack.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "laconic/exchange/conversation.h"
#include "laconic/transports/sockets.h"
#include "laconic/transports/sockets_link.h"

namespace laconic {
namespace {

using sockets::Descriptor;

// Bytes of a short message, and of a long one, which takes so many seconds if it may.
constexpr std::size_t kShort = 76, kLeastLong = 1U << 14, kMostLong = 1U << 18;
constexpr double kLongSeconds = 0.004;
constexpr int kMostSegment = 1448;
constexpr double kLeastRate = 1.25e6, kMostRate = 4e9;  // bytes a second
// Messages of a round, the best of which counts.
constexpr int kRounds = 5, kShortOnes = 100, kLongOnes = 5;

double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void require(bool done) {
  if (!done)
    throw SystemError(sockets::system_words(
        "cannot measure what messages take of processors; 'stack' may say it instead", errno));
}

template <class T>
void set(const Descriptor& socket, int level, int option, const T& value) {
  require(::setsockopt(socket.get(), level, option, &value, sizeof value) == 0);
}

Descriptor make_socket() {
  Descriptor made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  require(static_cast<bool>(made));
  set(made, IPPROTO_TCP, TCP_MAXSEG, kMostSegment);
  return made;
}

// Two ends of one connection.
std::array<Descriptor, 2> connect_two(std::uint32_t bytes_per_second) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const Descriptor listener = make_socket();
  Descriptor one = make_socket();
  require(::bind(listener.get(), any, length) == 0 && ::listen(listener.get(), 1) == 0 &&
          ::getsockname(listener.get(), any, &length) == 0 &&
          ::connect(one.get(), any, length) == 0);
  Descriptor two(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  require(static_cast<bool>(two));
  for (const Descriptor* end : {&one, &two})
    set(*end, SOL_SOCKET, SO_MAX_PACING_RATE, bytes_per_second);
  return {std::move(one), std::move(two)};
}

// Of this rank, for one of `count` messages that it sends while it receives as many.
double time_messages(Conversation& talk, std::size_t size, int count) {
  std::vector<std::uint8_t> out(size), in(size);
  const int peer = 1 - talk.rank();
  const Send send{peer, out};
  const Receive receive = Receive::exactly(peer, in);
  const double began = thread_seconds();
  for (int i = 0; i < count; ++i) talk.exchange({&send, 1}, {&receive, 1});
  return (thread_seconds() - began) / count;
}

struct Messages {
  double small = 1, large = 1;  // seconds of one
};

Messages measure_rank(int rank, Descriptor& end, std::size_t size) {
  std::array<int, 2> descriptors = {-1, -1};
  descriptors[static_cast<std::size_t>(1 - rank)] = end.get();
  const auto transport = make_sockets_transport(rank, 2, descriptors);
  end.release();
  Conversation talk(*transport, Deadline::in(60, "measuring what messages take of processors"));
  Messages best;
  for (int round = 0; round < kRounds; ++round) {
    best.small = std::min(best.small, time_messages(talk, kShort, kShortOnes));
    best.large = std::min(best.large, time_messages(talk, size, kLongOnes));
  }
  return best;
}

}  // namespace

Stack measure_stack(double bits_per_second) {
  const double rate = std::clamp(bits_per_second / 8, kLeastRate, kMostRate);
  const auto size = static_cast<std::size_t>(std::clamp(
      rate * kLongSeconds, static_cast<double>(kLeastLong), static_cast<double>(kMostLong)));
  std::array<Descriptor, 2> ends = connect_two(static_cast<std::uint32_t>(rate));
  std::array<Messages, 2> of;
  std::array<std::exception_ptr, 2> errors;
  const auto measure = [&](std::size_t rank) {
    try {
      of[rank] = measure_rank(static_cast<int>(rank), ends[rank], size);
    } catch (...) {
      errors[rank] = std::current_exception();
      ends[rank].close();
    }
  };
  std::thread other(measure, 1);
  measure(0);
  other.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  const double small = (of[0].small + of[1].small) / 2, large = (of[0].large + of[1].large) / 2;
  const double byte = std::max(0.0, large - small) / static_cast<double>(size - kShort);
  return {.message = small, .byte = byte};
}

}  // namespace laconic
