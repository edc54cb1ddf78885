// Heads under MPI's tag 0; payloads in pieces under tags that tell them apart.
#include "laconic/transports/mpi_wire.h"

#include <algorithm>

namespace laconic::mpi {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kHeadTag = 0;
constexpr std::uint32_t kPayloadTags = 30000;  // MPI promises tags up to 32767

int tag_of(const Head& head) {
  return 1 + static_cast<int>(static_cast<std::uint32_t>(head.sequence) % kPayloadTags);
}

// Calls with the bytes of each piece.
template <class Bytes, class Start>
void in_pieces(Bytes bytes, const Head& head, Start start) {
  const auto piece = static_cast<std::size_t>(head.sequence >> 32);
  for (std::size_t from = 0; from < bytes.size(); from += piece)
    start(bytes.subspan(from, std::min(piece, bytes.size() - from)));
}

std::size_t pieces_of(const Head& head, int from) {
  const std::uint64_t piece = head.sequence >> 32;
  if (piece == 0 || head.length / piece > 1 << 24)
    throw DataError("rank " + std::to_string(from) + " sent an impossible head", from);
  return static_cast<std::size_t>(head.length / piece + 1);
}

}  // namespace

void check(int code, const std::string& what, int rank) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
    throw TransportError(what + ": error " + std::to_string(code), rank);
  throw TransportError(what + ": " + std::string(text, static_cast<std::size_t>(length)), rank);
}

Wire::Wire(MPI_Comm of, double timeout_seconds, std::uint32_t piece_bytes)
    : piece_bytes_(piece_bytes) {
  const Deadline deadline = Deadline::in(timeout_seconds, "connecting");
  MPI_Request request;
  check(MPI_Comm_idup(of, &comm_, &request), "MPI_Comm_idup");
  Patience patience;
  for (int done = 0;;) {
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Comm_idup");
    if (done) break;
    if (Clock::now() >= deadline.at)
      throw TransportError("not all ranks of the communicator have come " + deadline.within());
    patience.pause(deadline.at);
  }
  check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  gone_.resize(static_cast<std::size_t>(size_));
  gone_[static_cast<std::size_t>(rank_)] = true;
  numbers_.resize(gone_.size());
  int level = MPI_THREAD_SINGLE;
  check(MPI_Query_thread(&level), "MPI_Query_thread");
  any_thread_ = level >= MPI_THREAD_SERIALIZED;
}

void Wire::require_thread() const {
  int is_main = 1;
  if (!any_thread_) MPI_Is_thread_main(&is_main);
  if (!is_main)
    throw UsageError(
        "the host has started MPI for its main thread alone: start it with "
        "MPI_THREAD_SERIALIZED");
}

std::uint64_t Wire::next_sequence(int to) {
  return std::uint64_t{piece_bytes_} << 32 | numbers_[static_cast<std::size_t>(to)]++;
}

bool Wire::done(Request& request, int peer, bool sends, std::string_view operation) const {
  int is_done = 0;
  const int code = MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS)
    check(code,
          (sends ? "sending to rank " : "receiving from rank ") + std::to_string(peer) + " (" +
              std::string(operation) + ")",
          peer);
  return is_done != 0;
}

void Wire::send(int to, const Head& head, ByteView rides) {
  sweep();
  if (free_.empty()) free_.push_back(std::make_unique<Slot>());
  busy_.reserve(busy_.size() + 1);
  Slot& slot = *free_.back();
  slot.bytes.clear();
  slot.bytes.append(write_head(head));
  slot.bytes.append(rides);
  check(MPI_Isend(slot.bytes.data(), static_cast<int>(slot.bytes.size()), MPI_BYTE, to, kHeadTag,
                  comm_, &slot.request),
        "MPI_Isend to rank " + std::to_string(to), to);
  busy_.push_back(std::move(free_.back()));
  free_.pop_back();
}

std::optional<Arrived> Wire::receive() {
  if (incoming_from_ == kNobody) {
    int found = 0, count = 0;
    MPI_Message message;
    MPI_Status status;
    check(MPI_Improbe(MPI_ANY_SOURCE, kHeadTag, comm_, &found, &message, &status), "MPI_Improbe");
    if (!found) return {};
    MPI_Get_count(&status, MPI_BYTE, &count);
    incoming_.bytes.reset(static_cast<std::size_t>(std::max(count, 0)));
    check(MPI_Imrecv(incoming_.bytes.data(), count, MPI_BYTE, &message, &incoming_.request),
          "MPI_Imrecv");
    incoming_from_ = status.MPI_SOURCE;
  }
  int done = 0;
  const int from = incoming_from_;
  check(MPI_Test(&incoming_.request, &done, MPI_STATUS_IGNORE), "receiving from a rank", from);
  if (!done) return {};
  incoming_from_ = kNobody;
  arrived_.swap(incoming_.bytes);
  const Head head = read_head(arrived_.view(), from);
  if (head.kind == Head::Kind::leave) gone_[static_cast<std::size_t>(from)] = true;
  return Arrived{from, head, arrived_.view(kMessageHead)};
}

void Wire::send_payload(int to, ByteView bytes, const Head& head,
                        std::vector<MPI_Request>& requests) {
  requests.reserve(requests.size() + pieces_of(head, rank_));
  in_pieces(bytes, head, [&](ByteView piece) {
    MPI_Request request;
    check(MPI_Isend(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, to, tag_of(head), comm_,
                    &request),
          "MPI_Isend to rank " + std::to_string(to), to);
    requests.push_back(request);
  });
}

void Wire::receive_payload(int from, std::span<std::uint8_t> bytes, const Head& head,
                           std::vector<MPI_Request>& requests) {
  requests.reserve(requests.size() + pieces_of(head, from));
  in_pieces(bytes, head, [&](std::span<std::uint8_t> piece) {
    MPI_Request request;
    check(MPI_Irecv(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, from, tag_of(head),
                    comm_, &request),
          "MPI_Irecv from rank " + std::to_string(from), from);
    requests.push_back(request);
  });
}

void Wire::waste_payload(int from, const Head& head) {
  if (head.length <= kRidesAlong) return;
  reserve_orphans(1);
  Orphan orphan;
  const auto room = orphan.buffers.emplace_back().reset(static_cast<std::size_t>(head.length));
  receive_payload(from, room, head, orphan.requests);
  adopt(std::move(orphan));
}

void Wire::adopt(Orphan orphan) noexcept { orphans_.push_back(std::move(orphan)); }

void Wire::sweep() noexcept {
  const auto done = [](MPI_Request& request) {
    int is_done = 1;
    return request == MPI_REQUEST_NULL ||
           (MPI_Test(&request, &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_done);
  };
  for (std::size_t i = busy_.size(); i-- > 0;) {
    if (!done(busy_[i]->request)) continue;
    std::swap(busy_[i], busy_.back());
    if (free_.size() < 64 && free_.size() < free_.capacity())
      free_.push_back(std::move(busy_.back()));
    busy_.pop_back();
  }
  std::erase_if(orphans_, [&](Orphan& orphan) {
    std::erase_if(orphan.requests, done);
    return orphan.requests.empty();
  });
}

// Takes in one message of any kind.
void Wire::take_any() noexcept {
  int found = 1;
  while (found) {
    MPI_Message message;
    MPI_Status status;
    if (MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &found, &message, &status) != MPI_SUCCESS ||
        !found)
      return;
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    arrived_.reset(static_cast<std::size_t>(std::max(count, 1)));
    MPI_Mrecv(arrived_.data(), count, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    if (status.MPI_TAG != kHeadTag || count < static_cast<int>(kMessageHead)) continue;
    if (load<std::uint32_t>(arrived_.data() + 4) == static_cast<std::uint32_t>(Head::Kind::leave))
      gone_[static_cast<std::size_t>(status.MPI_SOURCE)] = true;
  }
}

bool Wire::drained() noexcept {
  sweep();
  if (incoming_from_ != kNobody) {
    int done = 0;
    if (MPI_Test(&incoming_.request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
      return false;
    incoming_from_ = kNobody;
  }
  const bool all_gone = std::ranges::all_of(gone_, [](bool gone) { return gone; });
  take_any();  // what they sent before they left
  return all_gone && busy_.empty() && orphans_.empty();
}

void Wire::release() noexcept { MPI_Comm_free(&comm_); }

void Wire::forget() noexcept {
  for (auto& slot : busy_) static_cast<void>(slot.release());
  if (!orphans_.empty()) static_cast<void>(new std::vector<Orphan>(std::move(orphans_)));
  if (incoming_from_ != kNobody) static_cast<void>(new Buffer(std::move(incoming_.bytes)));
}

}  // namespace laconic::mpi
