// Collectives over exchange, for transports that have none of their own.
#include "laconic/exchange/transport.h"

#include "laconic/base/errors.h"
#include "laconic/base/registry.h"

namespace laconic {
namespace {

Registry<TransportInfo>& registry() {
  static Registry<TransportInfo> transports("transport");
  return transports;
}

template <class T>
ByteView bytes_of(std::span<T> values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()};
}
template <class T>
std::span<std::uint8_t> writable_bytes_of(std::span<T> values) {
  return {reinterpret_cast<std::uint8_t*>(values.data()), values.size_bytes()};
}

// Ring all-reduce: n - 1 rounds in which partial sums travel, n - 1 in which whole sums do. Sends 2
// (n-1)/n of the array.
template <class T>
void ring(Transport& transport, std::span<T> values, const Deadline& deadline) {
  const int n = transport.size(), rank = transport.rank();
  const int next = (rank + 1) % n, before = (rank + n - 1) % n;
  const auto part = [&](int i) {
    const auto p = static_cast<std::size_t>((i % n + n) % n), parts = static_cast<std::size_t>(n);
    const std::size_t from = values.size() * p / parts, to = values.size() * (p + 1) / parts;
    return values.subspan(from, to - from);
  };
  const auto pass = [&](std::span<T> out, std::span<T> in) {
    const Send send{next, bytes_of(out)};
    const Receive receive{before, writable_bytes_of(in)};
    transport.exchange({&send, 1}, {&receive, 1}, deadline);
  };
  std::vector<T> incoming(values.size() / static_cast<std::size_t>(n) + 1);
  for (int round = 0; round < n - 1; ++round) {
    const std::span<T> mine = part(rank - round - 1), in = std::span(incoming).first(mine.size());
    pass(part(rank - round), in);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = in[i] + mine[i];
  }
  for (int round = 0; round < n - 1; ++round) pass(part(rank - round + 1), part(rank - round));
}

}  // namespace

Deadline Deadline::in(double seconds, std::string_view operation) {
  if (!(seconds > 0 && seconds <= 1e8))
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

void Transport::exchange(std::span<const Send> sends, std::span<const Receive> receives,
                         const Deadline& deadline) {
  const auto known = [&](int peer) {
    if (peer < 0 || peer >= size() || peer == rank())
      throw UsageError("rank " + std::to_string(rank()) + " of " + std::to_string(size()) +
                       " cannot exchange with rank " + std::to_string(peer));
  };
  for (const Send& send : sends) known(send.to);
  for (const Receive& receive : receives) known(receive.from);
  if (sends.empty() && receives.empty()) return;
  do_exchange(sends, receives, deadline);
  for (const Send& send : sends) bytes_sent_ += send.bytes.size();
  ++rounds_;
}

void Transport::exchange_sized(std::span<const Send> sends, std::span<const ReceiveSized> receives,
                               std::uint64_t most, const Deadline& deadline) {
  std::vector<std::uint64_t> out, in(receives.size());
  for (const Send& send : sends) out.push_back(send.bytes.size());
  std::vector<Send> lengths;
  std::vector<Receive> incoming;
  for (std::size_t i = 0; i < sends.size(); ++i)
    lengths.push_back({sends[i].to, bytes_of(std::span(&out[i], 1))});
  for (std::size_t i = 0; i < receives.size(); ++i)
    incoming.push_back({receives[i].from, writable_bytes_of(std::span(&in[i], 1))});
  exchange(lengths, incoming, deadline);
  const auto allow = [&](int from, std::uint64_t claimed) {
    if (claimed > most)
      throw DataError("rank " + std::to_string(from) + " claims " + std::to_string(claimed) +
                      " bytes where at most " + std::to_string(most) + " can be (" +
                      std::string(deadline.operation) + ")");
  };
  for (std::size_t i = 0; i < receives.size(); ++i) allow(receives[i].from, in[i]);
  for (const std::uint64_t length : out) allow(rank(), length);  // nobody will take it
  for (std::size_t i = 0; i < receives.size(); ++i)
    incoming[i].bytes = receives[i].bytes->reset(static_cast<std::size_t>(in[i]));
  exchange(sends, incoming, deadline);
}

void Transport::all_gather(ByteView mine, std::vector<Buffer>& all, std::uint64_t most,
                           const Deadline& deadline) {
  const auto n = static_cast<std::size_t>(size()), me = static_cast<std::size_t>(rank());
  all.resize(n);
  std::vector<Send> sends;
  std::vector<ReceiveSized> receives;
  for (std::size_t i = 1; i < n; ++i) {
    const std::size_t to = (me + i) % n, from = (me + n - i) % n;
    sends.push_back({static_cast<int>(to), mine});
    receives.push_back({static_cast<int>(from), &all[from]});
  }
  exchange_sized(sends, receives, most, deadline);
  all[me].clear();
  all[me].append(mine);
}

void Transport::all_reduce(std::span<float> values, const Deadline& deadline) {
  ring(*this, values, deadline);
}

void Transport::all_reduce(std::span<std::int64_t> values, const Deadline& deadline) {
  ring(*this, values, deadline);
}

std::string lost_sentence(const Loss& loss, const Deadline& deadline) {
  const std::string lost = "rank " + std::to_string(loss.lost),
                    peer = "rank " + std::to_string(loss.peer);
  const bool direct = loss.lost == loss.peer;
  return lost + (loss.left ? " has left while rank " : " does not answer: rank ") +
         std::to_string(loss.rank) + " waits for " + (direct ? "it" : peer) + " " + loss.what +
         (direct ? "" : ", and " + peer + ", in the end, for " + lost) + " (" +
         std::string(deadline.operation) + ")";
}

const std::vector<TransportInfo>& transports() { return registry().all(); }

RegisterTransport::RegisterTransport(TransportInfo info) { registry().add(std::move(info)); }

}  // namespace laconic
