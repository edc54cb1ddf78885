// All of a rank's sockets, one to each other rank, served together. Only files of the transport
// sockets include this.
#pragma once

#include <sys/epoll.h>

#include <memory>

#include "laconic/transports/sockets_link.h"

namespace laconic::sockets {

class Lines {
 public:
  using Clock = std::chrono::steady_clock;

  // Watches the sockets, which stay the caller's; -1: none. What comes in is told to the listener.
  Lines(std::span<const int> descriptors, Listener& listener);
  // From here on they are its own.
  void adopt(std::span<const int> descriptors) noexcept;

  std::size_t size() const { return lines_.size(); }
  Link& link(int rank) { return lines_[static_cast<std::size_t>(rank)]->link; }
  // Why nothing from there can be understood any more; empty: it can.
  const std::string& broken(int rank) const {
    return lines_[static_cast<std::size_t>(rank)]->broken;
  }

  void send(int to, Outgoing& out);
  // Whom it does not reach does not hear it.
  void tell_all(Head head, ByteView rides = {}) noexcept;

  // Waits for sockets until then, and moves what can be moved. False: nothing came, or wake.
  bool serve(Clock::time_point until);
  void wake();  // from any thread
  // Until all that was told has gone, or then.
  void flush(Clock::time_point until) noexcept;
  // The same until the other machines have it. Bytes nobody reads are taken in meanwhile: a socket
  // closed over them would take back what has not arrived yet.
  void drain(Clock::time_point until);

  bool news = false;  // something has happened since the last idle

 private:
  struct Line {
    explicit Line(int peer) : link(peer), peer(peer) {}
    bool unheard() const;

    Link link;
    int peer;
    bool watched_out = false;
    std::string broken;
  };

  void watch(int operation, int descriptor, int number, std::uint32_t what) const;
  void write(Line& line);
  void read(Line& line);
  template <class Holds>
  bool any(Holds holds) const {
    return std::ranges::any_of(lines_, [&](const auto& line) { return holds(*line); });
  }

  Listener& listener_;
  Descriptor epoll_, waker_;
  std::vector<epoll_event> events_;
  std::vector<std::unique_ptr<Line>> lines_;  // by rank
};

}  // namespace laconic::sockets
