// mpi: each message in pieces, all pieces started at once, then asked for until all are there.
#include "laconic/transports/mpi.h"

#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <thread>
#include <utility>

#include "laconic/base/errors.h"

namespace laconic {
namespace {

// The communicator is ours alone. Under the second tag ranks that have waited long tell all others
// for whom, so that those who wait for them know who holds all up.
constexpr int kTag = 0, kReportTag = 1;

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "error " + std::to_string(code);
  return {text, static_cast<std::size_t>(length)};
}

void check(int code, const std::string& what) {
  if (code != MPI_SUCCESS) throw TransportError(what + ": " + text_of(code));
}

// Pauses between two questions: first only lets others run, then sleeps up to 100 us, so that a
// waiting rank leaves its core to those that work.
class Patience {
 public:
  void pause() {
    if (++times_ <= 50) return std::this_thread::yield();
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(2 * sleep_, std::chrono::microseconds(100));
  }

 private:
  int times_ = 0;
  std::chrono::microseconds sleep_{1};
};

// One message or a part of one, on its way.
struct Piece {
  int peer;
  bool incoming;
  std::uint8_t* bytes;  // in the staging buffer
  int count;
  std::size_t length;  // of the whole message
};

class Mpi : public Transport {
 public:
  Mpi(MPI_Comm of, const MpiOptions& options) : piece_bytes_(options.piece_bytes) {
    duplicate(of, Deadline::in(options.timeout_seconds, "connecting"));
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    needs_.assign(static_cast<std::size_t>(size_), kNobody);
  }

  ~Mpi() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized && failure_.empty()) MPI_Comm_free(&comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

 protected:
  void do_exchange(std::span<const Send> sends, std::span<const Receive> receives,
                   const Deadline& deadline) override {
    if (!failure_.empty()) throw TransportError("the transport has failed before: " + failure_);
    hear();
    needs_.assign(static_cast<std::size_t>(size_), kNobody);  // those were of waits that are over
    reported_ = false;
    try {
      stage(sends, receives);
      start();
      wait(deadline);
    } catch (const TransportError& error) {
      failure_ = error.what();
      abandon();
      throw;
    }
    std::size_t at = 0;
    for (const Receive& receive : receives) {
      if (!receive.bytes.empty())
        std::memcpy(receive.bytes.data(), staging_.data() + at, receive.bytes.size());
      at += receive.bytes.size();
    }
  }

 private:
  // MPI_Comm_dup, but with an end.
  void duplicate(MPI_Comm of, const Deadline& deadline) {
    MPI_Request request;
    check(MPI_Comm_idup(of, &comm_, &request), "MPI_Comm_idup");
    Patience patience;
    for (int done = 0;;) {
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Comm_idup");
      if (done) return;
      if (std::chrono::steady_clock::now() >= deadline.at)
        throw TransportError("not all ranks of the communicator have come " + deadline.within());
      patience.pause();
    }
  }

  // Lays out the buffer, incoming messages first, and copies the outgoing ones in.
  void stage(std::span<const Send> sends, std::span<const Receive> receives) {
    std::size_t total = 0;
    for (const Receive& receive : receives) total += receive.bytes.size();
    for (const Send& send : sends) total += send.bytes.size();
    std::uint8_t* at = staging_.reset(total).data();
    pieces_.clear();
    for (const Receive& receive : receives) at = cut(receive.from, true, at, receive.bytes.size());
    for (const Send& send : sends) {
      if (!send.bytes.empty()) std::memcpy(at, send.bytes.data(), send.bytes.size());
      at = cut(send.to, false, at, send.bytes.size());
    }
  }

  // Whole pieces, then one that is shorter and may be empty: by it the receiver knows the end.
  std::uint8_t* cut(int peer, bool incoming, std::uint8_t* at, std::size_t length) {
    for (std::size_t from = 0; from <= length; from += piece_bytes_)
      pieces_.push_back({peer, incoming, at + from,
                         static_cast<int>(std::min(piece_bytes_, length - from)), length});
    return at + length;
  }

  void start() {
    requests_.assign(pieces_.size(), MPI_REQUEST_NULL);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const Piece& p = pieces_[i];
      if (p.incoming)
        check(MPI_Irecv(p.bytes, p.count, MPI_BYTE, p.peer, kTag, comm_, &requests_[i]),
              "MPI_Irecv from rank " + std::to_string(p.peer));
      else
        check(MPI_Isend(p.bytes, p.count, MPI_BYTE, p.peer, kTag, comm_, &requests_[i]),
              "MPI_Isend to rank " + std::to_string(p.peer));
    }
  }

  void wait(const Deadline& deadline) {
    std::vector<int> which(requests_.size());
    std::vector<MPI_Status> statuses(requests_.size());
    Patience patience;
    for (std::size_t left = requests_.size(); left > 0;) {
      int done = 0;
      const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &done,
                                    which.data(), statuses.data());
      if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) check(code, "MPI_Testsome");
      for (std::size_t i = 0; i < static_cast<std::size_t>(done); ++i)
        finish(pieces_[static_cast<std::size_t>(which[i])], statuses[i], code, deadline);
      left -= static_cast<std::size_t>(done);
      if (done > 0) {
        patience = {};
      } else if (left > 0) {
        const auto now = std::chrono::steady_clock::now();
        if (hear() || now >= report_at(deadline)) report();
        if (now >= deadline.at) give_up(deadline);
        patience.pause();
      }
    }
  }

  // A piece is there: was it what we wait for?
  void finish(const Piece& piece, const MPI_Status& status, int code, const Deadline& deadline) {
    const int error = code == MPI_ERR_IN_STATUS ? status.MPI_ERROR : MPI_SUCCESS;
    int kind = MPI_SUCCESS, count = piece.count;
    MPI_Error_class(error, &kind);
    if (error == MPI_SUCCESS && piece.incoming) MPI_Get_count(&status, MPI_BYTE, &count);
    const std::string peer = "rank " + std::to_string(piece.peer);
    const std::string end = " bytes that rank " + std::to_string(rank_) + " expects (" +
                            std::string(deadline.operation) + ")";
    if (kind == MPI_ERR_TRUNCATE)
      throw TransportError(peer + " sent more than the " + std::to_string(piece.length) + end);
    check(error, (piece.incoming ? "receiving from " : "sending to ") + peer + " (" +
                     std::string(deadline.operation) + ")");
    if (count != piece.count)
      throw TransportError(peer + " sent less than the " + std::to_string(piece.length) + end);
  }

  // In time for the others to hear it before they give up.
  static std::chrono::steady_clock::time_point report_at(const Deadline& deadline) {
    const std::chrono::duration<double> before(std::min(5.0, deadline.seconds / 2));
    return deadline.at - std::chrono::duration_cast<std::chrono::steady_clock::duration>(before);
  }

  // Tells all for whom this rank waits, once in a wait. What MPI thinks of it does not matter: the
  // number stays where it is, and who is dead does not hear it.
  void report() {
    if (std::exchange(reported_, true)) return;
    const int* peer = new int(*awaited().begin());
    for (int to = 0; to < size_; ++to) {
      MPI_Request request = MPI_REQUEST_NULL;
      if (to != rank_ &&
          MPI_Isend(peer, 1, MPI_INT, to, kReportTag, comm_, &request) == MPI_SUCCESS)
        MPI_Request_free(&request);
    }
  }

  // Takes in what others have reported. Whether any has.
  bool hear() {
    for (bool any = false;; any = true) {
      int waiting = 0;
      MPI_Status status;
      if (MPI_Iprobe(MPI_ANY_SOURCE, kReportTag, comm_, &waiting, &status) != MPI_SUCCESS ||
          !waiting)
        return any;
      int peer = kNobody;
      MPI_Recv(&peer, 1, MPI_INT, status.MPI_SOURCE, kReportTag, comm_, MPI_STATUS_IGNORE);
      if (peer >= 0 && peer < size_) needs_[static_cast<std::size_t>(status.MPI_SOURCE)] = peer;
    }
  }

  std::set<int> awaited(bool incoming) const {
    std::set<int> ranks;
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      if (requests_[i] != MPI_REQUEST_NULL && pieces_[i].incoming == incoming)
        ranks.insert(pieces_[i].peer);
    return ranks;
  }

  // Those who have not sent; only where all have, those who have not received.
  std::set<int> awaited() const {
    const std::set<int> senders = awaited(true);
    return senders.empty() ? awaited(false) : senders;
  }

  [[noreturn]] void give_up(const Deadline& deadline) const {
    const std::set<int> ranks = awaited();
    const std::string what =
        (awaited(true).empty() ? "to receive " : "to send ") + deadline.within();
    std::set<int> lost;
    for (const int rank : ranks)
      lost.insert(lost_behind(rank, rank_, size_,
                              [&](int r) { return needs_[static_cast<std::size_t>(r)]; }));
    if (lost.size() == 1) {
      const int one = *lost.begin();
      throw TransportError(lost_sentence({.lost = one,
                                          .left = false,
                                          .peer = ranks.contains(one) ? one : *ranks.begin(),
                                          .rank = rank_,
                                          .what = what},
                                         deadline));
    }
    std::vector<std::string> names;
    for (const int rank : lost) names.push_back("rank " + std::to_string(rank));
    throw TransportError(join(names) + " do not answer: rank " + std::to_string(rank_) +
                         " waits for them " + what + " (" + std::string(deadline.operation) + ")");
  }

  // MPI may read and write the staging buffer as long as the process lives, so it is given up with
  // the requests, those that can be cancelled and those that cannot.
  void abandon() {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      if (pieces_[i].incoming) MPI_Cancel(&requests_[i]);
      MPI_Request_free(&requests_[i]);
    }
    static_cast<void>(new Buffer(std::move(staging_)));
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::size_t piece_bytes_;
  Buffer staging_;  // kept from one exchange to the next
  std::vector<Piece> pieces_;
  std::vector<MPI_Request> requests_;
  std::vector<int> needs_;  // by rank: for whom it has reported to wait
  bool reported_ = false;
  std::string failure_;
};

bool started() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized && !finalized;
}

std::unique_ptr<Transport> make(MPI_Comm comm, const MpiOptions& options) {
  if (options.piece_bytes < 1 || options.piece_bytes > 0x7fffffff)
    throw UsageError("pieces of " + std::to_string(options.piece_bytes) +
                     " bytes; allowed: 1 to 2147483647");
  return std::make_unique<Mpi>(comm, options);
}

void need_mpi() {
  if (!started()) throw UsageError("MPI is not started; an MpiSession or MPI_Init_thread does it");
}

const RegisterTransport mpi{{
    .name = "mpi",
    .summary = "Ranks as processes that mpirun starts, on one machine or many.",
    .paper = "",
    .parameters = {},
}};

}  // namespace

bool has_mpi() { return true; }

MpiSession::MpiSession() {
  if (started()) return;
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  ours_ = true;
  if (provided < MPI_THREAD_SERIALIZED) {
    MPI_Finalize();
    throw TransportError("this MPI does not let other threads than the main one call it");
  }
}

MpiSession::~MpiSession() {
  if (ours_ && started()) MPI_Finalize();
}

void MpiSession::abort(int status) {
  MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

std::unique_ptr<Transport> make_mpi_transport(int communicator, const MpiOptions& options) {
  need_mpi();
  return make(MPI_Comm_f2c(communicator), options);
}

std::unique_ptr<Transport> make_mpi_transport(const MpiOptions& options) {
  need_mpi();
  return make(MPI_COMM_WORLD, options);
}

}  // namespace laconic
