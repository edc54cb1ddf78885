// How ranks find each other: all go to rank 0, which tells each where the others listen; then each
// pair connects, the higher rank to the lower.
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "laconic/base/key.h"
#include "laconic/transports/sockets.h"
#include "laconic/transports/sockets_link.h"

namespace laconic {
namespace {

using sockets::Descriptor;
using sockets::system_words;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kMagic = 0x314a434c;  // "LCJ1"
constexpr std::size_t kHelloBytes = 64;       // magic, rank, size, length; token; address
constexpr std::size_t kAddressBytes = 32;     // its length, and room for one of IPv6
constexpr std::size_t kAnswerBytes = 12;      // magic, whether welcome, length of what follows
constexpr std::size_t kLongestRefusal = 2000;
constexpr std::size_t kMostGuests = 1024;  // that have not said who they are
constexpr std::chrono::milliseconds kBetweenTries(20);
constexpr std::chrono::seconds kGrace(1);  // for rank 0 to say who has not come in time

using Token = std::array<std::uint64_t, 2>;

Token hash_of(const std::string& text) {
  Token token;
  for (std::size_t i = 0; i < token.size(); ++i) {
    Key key(i);
    for (const char c : text) key = key.fork(static_cast<unsigned char>(c));
    token[i] = key.bits(text.size());
  }
  return token;
}

Token random_token() {
  Token token;
  if (::getrandom(token.data(), sizeof token, 0) != sizeof token)
    throw SystemError(system_words("cannot draw a token", errno));
  return token;
}

// Of IPv4 or IPv6.
struct Address {
  sockaddr_storage bytes = {};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }

  static Address read(ByteView from) {
    Address address;
    const auto length = load<std::uint32_t>(from.data());
    if (length > kAddressBytes - 4) return address;
    std::memcpy(&address.bytes, from.data() + 4, length);
    const auto family = address.get()->sa_family;
    if ((family == AF_INET && length == sizeof(sockaddr_in)) ||
        (family == AF_INET6 && length == sizeof(sockaddr_in6)))
      address.length = length;
    return address;
  }

  void write(std::uint8_t* to) const {
    store(to, static_cast<std::uint32_t>(length));
    std::memcpy(to + 4, &bytes, std::min<std::size_t>(length, kAddressBytes - 4));
  }
};

std::string place_of(const Meeting& meeting) {
  return meeting.host + ":" + std::to_string(meeting.port);
}

std::vector<Address> resolve(const Meeting& meeting) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int code =
      ::getaddrinfo(meeting.host.c_str(), std::to_string(meeting.port).c_str(), &hints, &list);
  if (code != 0)
    throw TransportError("no address for the host '" + meeting.host + "': " + ::gai_strerror(code));
  std::vector<Address> addresses;
  for (const addrinfo* entry = list; entry; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    Address& address = addresses.emplace_back();
    address.length = entry->ai_addrlen;
    std::memcpy(&address.bytes, entry->ai_addr, entry->ai_addrlen);
  }
  ::freeaddrinfo(list);
  return addresses;
}

Descriptor make_socket(const Address& address) {
  Descriptor socket(
      ::socket(address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw SystemError(system_words("cannot open a socket", errno));
  return socket;
}

Descriptor listen_at(const Address& address, const std::string& name) {
  Descriptor socket = make_socket(address);
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), address.get(), address.length) != 0 || ::listen(socket.get(), 128) != 0)
    throw TransportError(system_words("cannot listen at " + name, errno));
  return socket;
}

// ---- bytes until a deadline

int milliseconds_until(Clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

bool wait_for(const Descriptor& socket, short what, Clock::time_point until) {
  pollfd entry{socket.get(), what, 0};
  for (;;) {
    const int count = ::poll(&entry, 1, milliseconds_until(until));
    if (count > 0) return true;
    if (count == 0 && Clock::now() >= until) return false;
    if (count < 0 && errno != EINTR) return false;
  }
}

bool is_for_later() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// Both are false where the other end is gone, or too late.
bool write_all(const Descriptor& socket, ByteView bytes, Clock::time_point until) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0)
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    else if (!is_for_later() || !wait_for(socket, POLLOUT, until))
      return false;
  }
  return true;
}

bool read_all(const Descriptor& socket, std::span<std::uint8_t> bytes, Clock::time_point until) {
  while (!bytes.empty()) {
    const ssize_t count = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count > 0)
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    else if (count == 0 || !is_for_later() || !wait_for(socket, POLLIN, until))
      return false;
  }
  return true;
}

// None: it cannot be reached, or not in time; errno says why.
Descriptor connect_to(const Address& address, Clock::time_point until) {
  Descriptor socket = make_socket(address);
  if (::connect(socket.get(), address.get(), address.length) == 0) return socket;
  if (errno != EINPROGRESS) return {};
  int error = ETIMEDOUT;
  socklen_t length = sizeof error;
  if (wait_for(socket, POLLOUT, until))
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  errno = error;
  return error == 0 ? std::move(socket) : Descriptor();
}

// ---- who is who

struct Hello {
  std::uint32_t rank = 0, size = 0;
  Token token = {};
  Address address;
};

std::array<std::uint8_t, kHelloBytes> write_hello(const Hello& hello) {
  std::array<std::uint8_t, kHelloBytes> bytes = {};
  store(bytes.data(), kMagic);
  store(bytes.data() + 4, hello.rank);
  store(bytes.data() + 8, hello.size);
  store(bytes.data() + 16, hello.token[0]);
  store(bytes.data() + 24, hello.token[1]);
  hello.address.write(bytes.data() + 32);
  return bytes;
}

// None: it is no rank of this library.
std::optional<Hello> read_hello(ByteView bytes) {
  if (load<std::uint32_t>(bytes.data()) != kMagic) return {};
  return Hello{
      .rank = load<std::uint32_t>(bytes.data() + 4),
      .size = load<std::uint32_t>(bytes.data() + 8),
      .token = {load<std::uint64_t>(bytes.data() + 16), load<std::uint64_t>(bytes.data() + 24)},
      .address = Address::read(bytes.subspan(32))};
}

Buffer write_answer(bool welcome, ByteView what) {
  Buffer answer;
  answer.append_number(kMagic);
  answer.append_number(static_cast<std::uint32_t>(welcome));
  answer.append_number(static_cast<std::uint32_t>(what.size()));
  answer.append(what);
  return answer;
}

class Joining {
 public:
  Joining(int rank, int size, const Meeting& meeting)
      : rank_(rank),
        size_(size),
        meeting_(meeting),
        deadline_(Deadline::in(meeting.timeout_seconds, "joining")),
        token_(hash_of(meeting.token)),
        lines_(static_cast<std::size_t>(size)),
        addresses_(lines_.size()) {}

  std::unique_ptr<Transport> join(const SocketsOptions& options) {
    if (size_ > 1) rank_ == 0 ? receive_all() : visit();
    std::vector<int> descriptors;
    for (const Descriptor& line : lines_) descriptors.push_back(line.get());
    auto end = make_sockets_transport(rank_, size_, descriptors, options);
    for (Descriptor& line : lines_) line.release();
    return end;
  }

 private:
  // Somebody who has connected and not said all yet.
  struct Guest {
    Descriptor socket;
    std::array<std::uint8_t, kHelloBytes> bytes = {};
    std::size_t count = 0;
  };

  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  Descriptor& line(std::uint32_t rank) { return lines_[rank]; }

  // Rank 0: who is to come is all others.
  void receive_all() {
    const Token session = random_token();
    Descriptor listener;
    const auto places = resolve(meeting_);
    for (std::size_t i = 0; i < places.size() && !listener; ++i) try {
        listener = listen_at(places[i], place_of(meeting_));
      } catch (const TransportError&) {
        if (i + 1 == places.size()) throw;
      }
    receive(listener, 1, token_, true);
    Buffer table;
    table.append_number(session[0]);
    table.append_number(session[1]);
    for (const Address& address : addresses_) address.write(table.grow(kAddressBytes));
    answer_all(true, table.view());
  }

  void answer_all(bool welcome, ByteView what) {
    const Buffer answer = write_answer(welcome, what);
    for (int rank = 1; rank < size_; ++rank)
      if (lines_[at(rank)] && !write_all(lines_[at(rank)], answer.view(), deadline_.at) && welcome)
        throw TransportError("rank " + std::to_string(rank) + " has left while all ranks join",
                             rank);
  }

  // The others: first to rank 0, then to those between.
  void visit() {
    lines_[0] = go_to_first();
    Address mine;
    mine.length = sizeof mine.bytes;
    if (::getsockname(lines_[0].get(), mine.get(), &mine.length) != 0)
      throw SystemError(system_words("cannot find this rank's address", errno));
    set_any_port(mine);
    const Descriptor listener = listen_at(mine, "this rank's own address");
    mine.length = sizeof mine.bytes;
    ::getsockname(listener.get(), mine.get(), &mine.length);
    const auto hello = write_hello(me(token_, mine));
    if (!write_all(lines_[0], hello, deadline_.at)) throw first_left();
    const Token session = read_table();
    for (int rank = 1; rank < rank_; ++rank) go_to(rank, session);
    receive(listener, rank_ + 1, session, false);
  }

  static void set_any_port(Address& address) {
    if (address.get()->sa_family == AF_INET)
      reinterpret_cast<sockaddr_in*>(&address.bytes)->sin_port = 0;
    else
      reinterpret_cast<sockaddr_in6*>(&address.bytes)->sin6_port = 0;
  }

  Hello me(const Token& token, const Address& address = {}) const {
    return {static_cast<std::uint32_t>(rank_), static_cast<std::uint32_t>(size_), token, address};
  }

  // It may not listen yet.
  Descriptor go_to_first() {
    const auto places = resolve(meeting_);
    for (;;) {
      int error = 0;
      for (const Address& place : places) {
        if (Descriptor socket = connect_to(place, deadline_.at)) return socket;
        error = errno;
      }
      if (Clock::now() + kBetweenTries >= deadline_.at)
        throw TransportError(system_words("rank 0 cannot be reached at " + place_of(meeting_) +
                                              " " + deadline_.within(),
                                          error),
                             0);
      ::poll(nullptr, 0, static_cast<int>(kBetweenTries.count()));
    }
  }

  TransportError first_left() const {
    const bool late = Clock::now() >= deadline_.at;
    return TransportError(
        "rank 0 at " + place_of(meeting_) +
            (late ? " has not answered " + deadline_.within() : " has left while all ranks join"),
        0);
  }

  Token read_table() {
    std::array<std::uint8_t, kAnswerBytes> head;
    if (!read_all(lines_[0], head, deadline_.at + kGrace)) throw first_left();
    const bool welcome = load<std::uint32_t>(head.data() + 4) == 1;
    const std::size_t length = load<std::uint32_t>(head.data() + 8);
    const std::size_t table = 16 + kAddressBytes * lines_.size();
    if (load<std::uint32_t>(head.data()) != kMagic ||
        (welcome ? length != table : length > kLongestRefusal))
      throw DataError("what answers at " + place_of(meeting_) + " is no rank of this library", 0);
    Buffer what;
    if (!read_all(lines_[0], what.reset(length), deadline_.at)) throw first_left();
    if (!welcome)
      throw TransportError(
          "rank 0 at " + place_of(meeting_) + " says: " + std::string(as_text(what.view())), 0);
    for (std::size_t rank = 1; rank < lines_.size(); ++rank) {
      addresses_[rank] = Address::read(what.view().subspan(16 + kAddressBytes * rank));
      if (addresses_[rank].length == 0)
        throw DataError("rank 0 gives no address of rank " + std::to_string(rank), 0);
    }
    return {load<std::uint64_t>(what.data()), load<std::uint64_t>(what.data() + 8)};
  }

  void go_to(int rank, const Token& session) {
    lines_[at(rank)] = connect_to(addresses_[at(rank)], deadline_.at);
    const int error = errno;
    if (!lines_[at(rank)] || !write_all(lines_[at(rank)], write_hello(me(session)), deadline_.at))
      throw TransportError(system_words("rank " + std::to_string(rank) +
                                            " cannot be reached by rank " + std::to_string(rank_),
                                        error),
                           rank);
  }

  // Until all ranks from `first` on have come.
  void receive(const Descriptor& listener, int first, const Token& token, bool answers) {
    std::vector<Guest> guests;
    for (;;) {
      const std::vector<int> missing = missing_from(first);
      if (missing.empty()) return;
      std::vector<pollfd> entries = {{listener.get(), POLLIN, 0}};
      for (const Guest& guest : guests) entries.push_back({guest.socket.get(), POLLIN, 0});
      ::poll(entries.data(), entries.size(), milliseconds_until(deadline_.at));
      if (Clock::now() >= deadline_.at) throw not_come(missing, answers);
      for (std::size_t i = guests.size(); i-- > 0;)
        if (entries[i + 1].revents && !listen_to(guests[i], first, token, answers))
          guests.erase(guests.begin() + static_cast<std::ptrdiff_t>(i));
      if (entries[0].revents) let_in(listener, guests);
    }
  }

  static void let_in(const Descriptor& listener, std::vector<Guest>& guests) {
    Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    if (guests.size() == kMostGuests) guests.erase(guests.begin());
    guests.push_back({.socket = std::move(socket)});
  }

  // False: there is no more to hear from it.
  bool listen_to(Guest& guest, int first, const Token& token, bool answers) {
    const auto rest = std::span(guest.bytes).subspan(guest.count);
    const ssize_t count = ::recv(guest.socket.get(), rest.data(), rest.size(), MSG_DONTWAIT);
    if (count <= 0) return count < 0 && is_for_later();
    guest.count += static_cast<std::size_t>(count);
    if (guest.count < guest.bytes.size()) return true;
    const auto hello = read_hello(guest.bytes);
    if (!hello) return false;
    const std::string why = why_not(*hello, first, token);
    if (why.empty()) {
      addresses_[hello->rank] = hello->address;
      lines_[hello->rank] = std::move(guest.socket);
    } else if (answers) {
      write_all(guest.socket, write_answer(false, as_bytes(why)).view(), Clock::now());
    }
    return false;
  }

  std::string why_not(const Hello& hello, int first, const Token& token) const {
    const std::string who = "rank " + std::to_string(hello.rank);
    if (hello.token != token) return who + " is of another run: its token is another one";
    if (hello.size != lines_.size())
      return who + " is one of " + std::to_string(hello.size) + " ranks, not of " +
             std::to_string(size_);
    if (hello.rank < static_cast<std::uint32_t>(first) || hello.rank >= lines_.size())
      return who + " is none; allowed: " + std::to_string(first) + " to " +
             std::to_string(size_ - 1);
    if (lines_[hello.rank]) return who + " is here already";
    return "";
  }

  std::vector<int> missing_from(int first) const {
    std::vector<int> missing;
    for (int rank = first; rank < size_; ++rank)
      if (!lines_[at(rank)]) missing.push_back(rank);
    return missing;
  }

  // And says so to those that wait.
  TransportError not_come(const std::vector<int>& missing, bool answers) {
    std::vector<std::string> names;
    for (const int rank : missing) names.push_back("rank " + std::to_string(rank));
    const std::string text = laconic::join(names) + (names.size() == 1 ? " has" : " have") +
                             " not come " + deadline_.within() + " (joining at " +
                             place_of(meeting_) + ")";
    if (answers) answer_all(false, as_bytes(text.substr(0, kLongestRefusal)));
    return TransportError(text, missing.front());
  }

  int rank_, size_;
  Meeting meeting_;
  Deadline deadline_;
  Token token_;
  std::vector<Descriptor> lines_;  // by rank
  std::vector<Address> addresses_;
};

}  // namespace

std::unique_ptr<Transport> join_sockets(int rank, int size, const Meeting& meeting,
                                        const SocketsOptions& options) {
  if (size < 1 || size > 65536 || rank < 0 || rank >= size)
    throw UsageError("rank " + std::to_string(rank) + " of " + std::to_string(size) +
                     "; allowed: 0 to size - 1, size 1 to 65536");
  if (meeting.port < 1 || meeting.port > 65535)
    throw UsageError("port " + std::to_string(meeting.port) + "; allowed: 1 to 65535");
  return Joining(rank, size, meeting).join(options);
}

}  // namespace laconic
