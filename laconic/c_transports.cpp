// The C ABI: how ranks reach each other, by callbacks of the host's, as threads, over MPI
// and sockets.
#include <stdexcept>

#include "laconic/c_guard.h"

using namespace laconic;
using namespace laconic::c;

struct laconic_thread_group {
  std::vector<std::unique_ptr<Transport>> ends;  // by rank; none: it was given out
  Maker maker = {};
};

namespace {

// Calls the host. Its arrays are kept between calls.
class Host {
 public:
  explicit Host(const laconic_callbacks& callbacks) : callbacks_(callbacks) {}

  void exchange(std::span<const Send> sends, std::span<const Receive> receives,
                const Deadline& deadline) {
    if (sends.empty() && receives.empty()) return;  // a single rank needs no callback
    translate(sends, receives);
    call("exchange", [&] {
      const auto [seconds, operation] = limit(deadline);
      return callbacks_.exchange(callbacks_.self, sends_.data(), sends_.size(), receives_.data(),
                                 receives_.size(), seconds, operation);
    });
  }

  void all_reduce(std::span<float> values, const Deadline& deadline) {
    call("all_reduce_float", [&] {
      const auto [seconds, operation] = limit(deadline);
      return callbacks_.all_reduce_float(callbacks_.self, values.data(), values.size(), seconds,
                                         operation);
    });
  }

  void* start(int tag, std::span<const Send> sends, std::span<const Receive> receives) {
    void* transfer = nullptr;
    translate(sends, receives);
    call("start", [&] {
      return callbacks_.start(callbacks_.self, tag, sends_.data(), sends_.size(), receives_.data(),
                              receives_.size(), &transfer);
    });
    return transfer;
  }

  bool test(void* transfer) {
    int done = 0;
    call("test", [&] { return callbacks_.test(callbacks_.self, transfer, &done); });
    return done != 0;
  }

  void cancel(void* transfer) { callbacks_.cancel(callbacks_.self, transfer); }

 private:
  void translate(std::span<const Send> sends, std::span<const Receive> receives) {
    sends_.clear();
    for (const Send& send : sends)
      sends_.push_back({send.to, send.bytes.data(), send.bytes.size()});
    receives_.clear();
    for (const Receive& receive : receives)
      receives_.push_back({receive.from, receive.bytes.data(), receive.bytes.size()});
  }

  std::pair<double, const char*> limit(const Deadline& deadline) {
    operation_ = deadline.operation;
    const std::chrono::duration<double> left = deadline.at - std::chrono::steady_clock::now();
    return {std::max(left.count(), 0.0), operation_.c_str()};
  }

  template <class Callback>
  void call(const char* name, Callback callback) {
    last_error().fresh = false;
    const int code = callback();
    if (code == 0) return;
    if (last_error().fresh) throw std::runtime_error(last_error().text);
    throw std::runtime_error("callback '" + std::string(name) + "' returned " +
                             std::to_string(code) + " and left no error");
  }

  laconic_callbacks callbacks_;
  std::vector<laconic_send> sends_;
  std::vector<laconic_receive> receives_;
  std::string operation_;
};

std::unique_ptr<Transport> transport_of(const laconic_callbacks& from) {
  const auto host = std::make_shared<Host>(from);
  Callbacks callbacks;
  callbacks.rank = from.rank;
  callbacks.size = from.size;
  if (from.exchange || from.size == 1)
    callbacks.exchange = [host](auto sends, auto receives, const Deadline& deadline) {
      host->exchange(sends, receives, deadline);
    };
  if (from.all_reduce_float)
    callbacks.all_reduce = [host](std::span<float> values, const Deadline& deadline) {
      host->all_reduce(values, deadline);
    };
  if (from.start)
    callbacks.start = [host](int tag, auto sends, auto receives) {
      return host->start(tag, sends, receives);
    };
  if (from.test) callbacks.test = [host](void* transfer) { return host->test(transfer); };
  if (from.cancel) callbacks.cancel = [host](void* transfer) { host->cancel(transfer); };
  return make_callback_transport(std::move(callbacks));
}

std::unique_ptr<Transport> take_end(laconic_thread_group* group, int rank) {
  auto& ends = need(group, "group").ends;
  if (rank < 0 || static_cast<std::size_t>(rank) >= ends.size())
    throw UsageError("rank " + std::to_string(rank) + " of " + std::to_string(ends.size()));
  auto& end = ends[static_cast<std::size_t>(rank)];
  if (!end)
    throw UsageError("rank " + std::to_string(rank) +
                     "'s transport was made before; allowed: once");
  return std::move(end);
}

}  // namespace

laconic_status laconic_transport_from_callbacks(const laconic_callbacks* callbacks,
                                                laconic_transport** transport) {
  return create(transport, "transport", [&] {
    return laconic_transport{transport_of(read_struct(callbacks, "callbacks"))};
  });
}

laconic_status laconic_thread_group_create(int size, laconic_thread_group** group) {
  return create(group, "group", [&] { return laconic_thread_group{make_thread_transports(size)}; });
}

laconic_status laconic_thread_group_transport(laconic_thread_group* group, int rank,
                                              laconic_transport** transport) {
  return create(transport, "transport", [&] { return laconic_transport{take_end(group, rank)}; });
}

void laconic_thread_group_free(laconic_thread_group* group) { destroy(group); }

laconic_status laconic_mpi_transport(int fortran_communicator, double timeout_seconds,
                                     laconic_transport** transport) {
  return create(transport, "transport", [&] {
    const MpiOptions options{.timeout_seconds = need_timeout(timeout_seconds)};
    return laconic_transport{make_mpi_transport(fortran_communicator, options)};
  });
}

laconic_status laconic_sockets_transport(int rank, int size, const int* descriptors,
                                         laconic_transport** transport) {
  return create(transport, "transport", [&] {
    const std::span<const int> all(&need(descriptors, "descriptors"),
                                   static_cast<std::size_t>(std::max(size, 0)));
    return laconic_transport{make_sockets_transport(rank, size, all)};
  });
}

laconic_status laconic_sockets_join(int rank, int size, const char* host, int port,
                                    const char* token, double timeout_seconds,
                                    laconic_transport** transport) {
  return create(transport, "transport", [&] {
    Meeting meeting{.port = port,
                    .token = token ? token : "",
                    .timeout_seconds = need_timeout(timeout_seconds)};
    if (host) meeting.host = host;
    return laconic_transport{join_sockets(rank, size, meeting)};
  });
}

void laconic_transport_free(laconic_transport* transport) { destroy(transport); }
