// What all transports share: deadlines, lengths, which transfers fly, and counters.
#include "laconic/exchange/transport.h"

#include <algorithm>

#include "laconic/base/registry.h"

namespace laconic {
namespace {

Registry<TransportInfo>& registry() {
  static Registry<TransportInfo> transports("transport");
  return transports;
}

void require_peer(const Transport& transport, int peer) {
  if (peer < 0 || peer >= transport.size() || peer == transport.rank())
    throw UsageError("rank " + std::to_string(transport.rank()) + " of " +
                     std::to_string(transport.size()) + " cannot exchange with rank " +
                     std::to_string(peer));
}

}  // namespace

Deadline Deadline::in(double seconds, std::string_view operation) {
  if (!(seconds > 0 && seconds <= kLongestTimeout))
    throw UsageError("a time-out of " + std::to_string(seconds) +
                     " seconds; allowed: above 0, up to 100000000");
  const auto wait = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
  return {std::chrono::steady_clock::now() + wait, seconds, operation};
}

std::string Deadline::within() const {
  std::string text = std::to_string(seconds);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return "within " + text + " s";
}

std::span<std::uint8_t> Receive::room_for(std::uint64_t length, std::string_view operation) const {
  const auto refuse = [&](const std::string& what) {
    throw DataError("rank " + std::to_string(from) + what + " (" + std::string(operation) + ")",
                    from);
  };
  if (into && length > most)
    refuse(" claims " + std::to_string(length) + " bytes where at most " + std::to_string(most) +
           " can be");
  if (!into && length != bytes.size())
    refuse(" sent " + std::to_string(length) + " bytes where " + std::to_string(bytes.size()) +
           " are expected");
  return into ? into->reset(static_cast<std::size_t>(length)) : bytes;
}

Transfer::~Transfer() {
  if (transport_) transport_->cancel(*this);
}

void Transfer::clear() {
  sends.clear();
  receives.clear();
}

Transport::~Transport() = default;

void Transport::close_attempt(std::uint64_t attempt) {
  for (std::size_t i = flying_.size(); i-- > 0;)
    if (flying_[i]->tag_.attempt == attempt) cancel(*flying_[i]);
  do_close(attempt);
}

void Transport::launch(const Tag& tag, Transfer& transfer) {
  if (transfer.flies()) throw UsageError("a transfer that flies cannot be started again");
  flying_.reserve(flying_.size() + 1);
  transfer.tag_ = tag;
  transfer.done_ = false;
}

void Transport::start(const Tag& tag, Transfer& transfer) {
  for (const Send& send : transfer.sends) require_peer(*this, send.to);
  for (const Receive& receive : transfer.receives) require_peer(*this, receive.from);
  launch(tag, transfer);
  do_start(transfer);
  transfer.transport_ = this;
  flying_.push_back(&transfer);
  transfer.rounds_ = transfer.receives.empty() ? 0 : 1;
  for (const Send& send : transfer.sends) bytes_sent_ += kMessageHead + send.bytes.size();
  messages_sent_ += transfer.sends.size();
}

void Transport::start_reduce(const Tag& tag, std::span<float> values, Transfer& transfer) {
  if (!reduces()) throw UsageError("this transport has no all-reduce of its own");
  launch(tag, transfer);
  do_start_reduce(values, transfer);
  transfer.transport_ = this;
  flying_.push_back(&transfer);
  const auto n = static_cast<std::uint64_t>(size());
  transfer.rounds_ = 2 * (n - 1);
  bytes_sent_ += 2 * values.size_bytes() * (n - 1) / n;
}

void Transport::do_start_reduce(std::span<float>, Transfer&) {}

bool Transport::test(Transfer& transfer) {
  if (transfer.transport_ != this) throw UsageError("a transfer is tested that was not started");
  try {
    if (!do_test(transfer)) return false;
  } catch (...) {
    cancel(transfer);
    throw;
  }
  land(transfer);
  transfer.done_ = true;
  rounds_ += transfer.rounds_;
  return true;
}

void Transport::cancel(Transfer& transfer) noexcept {
  if (transfer.transport_ != this) return;
  do_cancel(transfer);
  land(transfer);
}

void Transport::land(Transfer& transfer) noexcept {
  transfer.transport_ = nullptr;
  std::erase(flying_, &transfer);
}

void Transport::cancel_all() noexcept {
  while (!flying_.empty()) cancel(*flying_.back());
}

void Transport::wait(Transfer& transfer, const Deadline& deadline) {
  transfer.due = deadline.at;
  while (!test(transfer)) {
    if (std::chrono::steady_clock::now() >= deadline.at) {
      const TransportError error = lost(transfer, deadline);
      cancel(transfer);
      throw error;
    }
    idle(deadline.at);
  }
}

const std::vector<TransportInfo>& transports() { return registry().all(); }

RegisterTransport::RegisterTransport(TransportInfo info) { registry().add(std::move(info)); }

}  // namespace laconic
