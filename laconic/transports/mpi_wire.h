// Heads and payloads over one communicator of MPI's. Only files of the transport mpi include this.
#pragma once

#include <mpi.h>

#include "laconic/transports/messenger.h"

namespace laconic::mpi {

// Throws TransportError unless the code is MPI_SUCCESS.
void check(int code, const std::string& what, int rank = kNobody);

class Wire {
 public:
  using Request = MPI_Request;
  using Orphan = laconic::Orphan<Request>;
  static inline const Request kNoRequest = MPI_REQUEST_NULL;
  // Messages up to this ride with their heads: MPIs send so little without asking the receiver.
  static constexpr std::uint64_t kRidesAlong = 4000 - kMessageHead;

  // A duplicate of a communicator: no message of the host can meet one of ours.
  Wire(MPI_Comm of, double timeout_seconds, std::uint32_t piece_bytes);

  int rank() const { return rank_; }
  int size() const { return size_; }
  MPI_Comm comm() const { return comm_; }

  // Copies a head and what rides along, and sends it.
  void send(int to, const Head& head, ByteView rides = {});

  // The next head that has arrived, heads of one rank in the order sent.
  std::optional<Arrived> receive();

  // Throws UsageError where MPI may not be called from this thread.
  void require_thread() const;

  // For the head of the next payload to a rank: its number among those to the same rank, and the
  // size of its pieces.
  std::uint64_t next_sequence(int to);
  // Starts a payload. Room for the requests is made first: none is lost should memory end.
  void send_payload(int to, ByteView bytes, const Head& head, std::vector<MPI_Request>& requests);
  void receive_payload(int from, std::span<std::uint8_t> bytes, const Head& head,
                       std::vector<MPI_Request>& requests);
  // Whether a request is done, which it then is no more.
  bool done(Request& request, int peer, bool sends, std::string_view operation) const;
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
  std::vector<bool> gone_;              // by rank: has said that it leaves
  std::vector<std::uint32_t> numbers_;  // by rank: of the next payload to it
  std::uint32_t piece_bytes_;
  bool any_thread_ = true;
};

// Keeps a wire that is no longer used until MPI ends, when all ranks take in what is still on its
// way: MPI wants every message received.
void bury(std::unique_ptr<Wire> wire) noexcept;

}  // namespace laconic::mpi
