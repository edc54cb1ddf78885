// Collectives of blocking exchanges.
#include "laconic/exchange/conversation.h"

#include <exception>
#include <utility>

namespace laconic {
namespace {

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
void ring(Conversation& among, std::span<T> values) {
  const int n = among.size(), rank = among.rank();
  const int next = (rank + 1) % n, before = (rank + n - 1) % n;
  const auto part = [&](int i) {
    const auto p = static_cast<std::size_t>((i % n + n) % n), parts = static_cast<std::size_t>(n);
    const std::size_t from = values.size() * p / parts, to = values.size() * (p + 1) / parts;
    return values.subspan(from, to - from);
  };
  const auto pass = [&](std::span<T> out, std::span<T> in) {
    const Send send{next, bytes_of(out)};
    const auto receive = Receive::exactly(before, writable_bytes_of(in));
    among.exchange({&send, 1}, {&receive, 1});
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

Conversation::Conversation(Transport& transport, const Deadline& deadline)
    : transport_(transport),
      deadline_(deadline),
      attempt_(transport.open_attempt()),
      exceptions_(std::uncaught_exceptions()) {}

Conversation::~Conversation() {
  try {
    if (std::uncaught_exceptions() > exceptions_)
      abort(rank(), "an error of its own (" + std::string(deadline_.operation) + ")");
    transport_.close_attempt(attempt_);
  } catch (...) {  // the others will find out by their time-outs
  }
}

void Conversation::abort(int culprit, std::string_view reason) {
  if (!std::exchange(over_, true)) transport_.abort(attempt_, culprit, reason);
}

void Conversation::wait(Transfer& transfer) {
  try {
    transport_.wait(transfer, deadline_);
  } catch (const Error& error) {
    abort(error.rank() == kNobody ? rank() : error.rank(), error.what());
    throw;
  }
}

void Conversation::exchange(std::span<const Send> sends, std::span<const Receive> receives) {
  transfer_.sends.assign(sends.begin(), sends.end());
  transfer_.receives.assign(receives.begin(), receives.end());
  exchange(transfer_);
}

void Conversation::exchange(Transfer& transfer) {
  if (transfer.sends.empty() && transfer.receives.empty()) return;
  transfer.operation = deadline_.operation;
  transfer.due = deadline_.at;
  transport_.start({.attempt = attempt_}, transfer);
  wait(transfer);
}

void Conversation::all_gather(ByteView mine, std::vector<Buffer>& all, std::uint64_t most) {
  const auto n = static_cast<std::size_t>(size()), me = static_cast<std::size_t>(rank());
  all.resize(n);
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (std::size_t i = 1; i < n; ++i) {
    const std::size_t to = (me + i) % n, from = (me + n - i) % n;
    sends.push_back({static_cast<int>(to), mine});
    receives.push_back(Receive::sized(static_cast<int>(from), all[from], most));
  }
  exchange(sends, receives);
  all[me].clear();
  all[me].append(mine);
}

void Conversation::all_reduce(std::span<float> values) { ring(*this, values); }

void Conversation::all_reduce(std::span<std::int64_t> values) { ring(*this, values); }

void Conversation::reduce(std::span<float> values) {
  if (!transport_.reduces()) return all_reduce(values);
  transfer_.operation = deadline_.operation;
  transfer_.due = deadline_.at;
  transport_.start_reduce({.attempt = attempt_}, values, transfer_);
  wait(transfer_);
}

}  // namespace laconic
