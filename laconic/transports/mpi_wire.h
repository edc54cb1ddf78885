// Heads and payloads over one communicator of MPI's. Only files of the transport mpi include this.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>

#include "laconic/transports/head.h"

namespace laconic::mpi {

// Messages up to this ride with their heads: MPIs send so little without asking the receiver.
constexpr std::uint64_t kRidesAlong = 4000 - kMessageHead;

// Throws TransportError unless the code is MPI_SUCCESS.
void check(int code, const std::string& what, int rank = kNobody);

// Pauses between two questions: first only lets others run, then sleeps up to 50 us, so that a
// waiting rank leaves its core to those that work.
class Patience {
 public:
  void pause(std::chrono::steady_clock::time_point until);

 private:
  int times_ = 0;
  std::chrono::microseconds sleep_{1};
};

// Requests that fly, and what they read and write, where nobody waits for them any more.
struct Orphan {
  std::vector<MPI_Request> requests;
  std::vector<Buffer> buffers;
  std::shared_ptr<const void> owner;
};

struct Arrived {
  int from;
  Head head;
  ByteView rides;  // the bytes of a short message, until the next question
};

class Wire {
 public:
  // A duplicate of a communicator: no message of the host can meet one of ours.
  Wire(MPI_Comm of, double timeout_seconds);

  int rank() const { return rank_; }
  int size() const { return size_; }
  MPI_Comm comm() const { return comm_; }

  // Copies a head and what rides along, and sends it.
  void send(int to, const Head& head, ByteView rides = {});

  // The next head that has arrived, heads of one rank in the order sent.
  std::optional<Arrived> receive();

  // Starts a payload. Room for the requests is made first: none is lost should memory end.
  void send_payload(int to, ByteView bytes, const Head& head, std::vector<MPI_Request>& requests);
  void receive_payload(int from, std::span<std::uint8_t> bytes, const Head& head,
                       std::vector<MPI_Request>& requests);
  // Receives a payload nobody wants.
  void waste_payload(int from, const Head& head);

  void reserve_orphans(std::size_t count) { orphans_.reserve(orphans_.size() + count); }
  void adopt(Orphan orphan) noexcept;  // room was reserved

  // Lets go of what MPI has finished.
  void sweep() noexcept;

  // Whether all that was sent to this rank was received, and all it sent has gone.
  bool drained() noexcept;
  void release() noexcept;  // frees the communicator
  void forget() noexcept;   // leaves everything to MPI for ever

 private:
  struct Slot {
    Buffer bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void take_any() noexcept;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::vector<std::unique_ptr<Slot>> busy_, free_;  // heads on their way
  Slot incoming_;
  int incoming_from_ = kNobody;
  Buffer arrived_;
  std::vector<Orphan> orphans_;
  std::vector<bool> gone_;  // by rank: has said that it leaves
};

// What a head's sequence is made of: the number of the payload among those to the same rank, and
// the sender's size of pieces.
std::uint64_t sequence_of(std::uint32_t number, std::uint32_t piece_bytes);

// Keeps a wire that is no longer used until MPI ends, when all ranks take in what is still on its
// way: MPI wants every message received.
void bury(std::unique_ptr<Wire> wire) noexcept;

}  // namespace laconic::mpi
