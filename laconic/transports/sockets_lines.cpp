// Sockets that are served together, by epoll.
#include "laconic/transports/sockets_lines.h"

#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/sockios.h>

#include <cerrno>

#include "laconic/base/errors.h"

namespace laconic::sockets {
namespace {

int milliseconds_until(Lines::Clock::time_point until) {
  if (until == Lines::Clock::time_point::min()) return 0;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(until - Lines::Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

}  // namespace

Lines::Lines(std::span<const int> descriptors, Listener& listener)
    : listener_(listener),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      waker_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      events_(descriptors.size() + 1) {
  if (!epoll_ || !waker_) throw SystemError(system_words("cannot watch sockets", errno));
  for (std::size_t peer = 0; peer < descriptors.size(); ++peer) {
    lines_.push_back(std::make_unique<Line>(static_cast<int>(peer)));
    if (descriptors[peer] >= 0)
      watch(EPOLL_CTL_ADD, descriptors[peer], static_cast<int>(peer), EPOLLIN);
  }
  watch(EPOLL_CTL_ADD, waker_.get(), static_cast<int>(size()), EPOLLIN);
}

void Lines::adopt(std::span<const int> descriptors) noexcept {
  for (std::size_t peer = 0; peer < descriptors.size(); ++peer)
    lines_[peer]->link.adopt(descriptors[peer]);
}

void Lines::watch(int operation, int descriptor, int number, std::uint32_t what) const {
  epoll_event event{};
  event.events = what;
  event.data.u32 = static_cast<std::uint32_t>(number);
  if (::epoll_ctl(epoll_.get(), operation, descriptor, &event) != 0)
    throw SystemError(system_words("cannot watch a socket", errno));
}

void Lines::send(int to, Outgoing& out) {
  Line& line = *lines_[static_cast<std::size_t>(to)];
  line.link.send(out);
  write(line);
}

void Lines::write(Line& line) {
  if (!line.link.open()) return;
  news |= line.link.write();
  if (line.watched_out == line.link.has_more()) return;
  line.watched_out = !line.watched_out;
  watch(EPOLL_CTL_MOD, line.link.descriptor(), line.peer,
        line.watched_out ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

// A rank whose socket has ended is not heard of again.
void Lines::read(Line& line) {
  try {
    if (!line.link.open() || line.link.read(listener_)) return;
  } catch (const std::exception& error) {  // where its next message begins is not known any more
    line.broken = error.what();
  }
  listener_.hear_end(line.peer);
  line.link.close();
  news = true;
}

bool Lines::serve(Clock::time_point until) {
  const int count = ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()),
                                 milliseconds_until(until));
  bool woken = count == 0 || (count < 0 && errno != EINTR);
  for (int i = 0; i < count; ++i) {
    const auto& event = events_[static_cast<std::size_t>(i)];
    if (event.data.u32 == lines_.size()) {
      std::uint64_t times;
      woken = ::read(waker_.get(), &times, sizeof times) > 0;
      continue;
    }
    Line& line = *lines_[event.data.u32];
    if (event.events & EPOLLOUT) write(line);
    if (event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) read(line);
  }
  if (woken && count > 0) news = true;
  return !woken;
}

void Lines::wake() {
  const std::uint64_t one = 1;
  if (::write(waker_.get(), &one, sizeof one) < 0) return;  // it is awake already
}

void Lines::tell_all(Head head, ByteView rides) noexcept {
  head.length = rides.size();
  for (auto& line : lines_) {
    if (!line->link.open()) continue;
    try {
      line->link.tell(head, rides);
      write(*line);
    } catch (...) {
    }
  }
}

void Lines::flush(Clock::time_point until) noexcept {
  try {
    while (any([](const Line& line) { return line.link.open() && line.link.has_told(); }) &&
           Clock::now() < until)
      serve(until);
  } catch (...) {
  }
}

void Lines::drain(Clock::time_point until) {
  flush(until);
  while (any([](const Line& line) { return line.unheard(); }) && Clock::now() < until)
    serve(std::min(until, Clock::now() + std::chrono::milliseconds(1)));
}

// Whether the other machine has not taken all bytes yet. With UNIX sockets there is none.
bool Lines::Line::unheard() const {
  int domain = AF_UNIX, count = 0;
  socklen_t length = sizeof domain;
  if (!link.open()) return false;
  ::getsockopt(link.descriptor(), SOL_SOCKET, SO_DOMAIN, &domain, &length);
  return domain != AF_UNIX && ::ioctl(link.descriptor(), SIOCOUTQ, &count) == 0 && count > 0;
}

}  // namespace laconic::sockets
