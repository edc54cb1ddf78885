// modelled: every message is followed by the moment it left.
#include "laconic/transports/modelled.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace laconic {
namespace {

using Clock = std::chrono::steady_clock;

double real_now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

// A day from now at most: the system's clock has no room for every double.
Clock::time_point at(double real) {
  const double left = std::min(real - real_now(), 86400.0);
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(left));
}

template <class T>
std::span<std::uint8_t> bytes_of(T& times) {
  return {reinterpret_cast<std::uint8_t*>(&times), sizeof times};
}

const RegisterTransport modelled{{
    .name = "modelled",
    .summary = "Another transport, timed as over a link of given latency and bandwidth.",
    .paper = "",
    .parameters = {},
}};

}  // namespace

struct ModelledTransport::Flight : Transfer::State {
  Transfer inside;
  std::vector<Times> left, came;   // by send and by receive: when its first bit left
  std::vector<std::size_t> order;  // of receives
  Times done;                      // when all of it is there
  bool arrived = false;
};

ModelledTransport::ModelledTransport(std::unique_ptr<Transport> inner, const Link& link)
    : WrappedTransport(std::move(inner)), link_(link) {
  if (!(link.latency_seconds >= 0 && std::isfinite(link.latency_seconds)))
    throw UsageError("a latency of " + std::to_string(link.latency_seconds) +
                     " seconds; allowed: 0 and more");
  if (!(link.bits_per_second > 0))
    throw UsageError("a bandwidth of " + std::to_string(link.bits_per_second) +
                     " bits per second; allowed: above 0");
}

double ModelledTransport::seconds_for(std::size_t bytes) const {
  return 8 * static_cast<double>(kMessageHead + bytes) / link_.bits_per_second;
}

void ModelledTransport::do_start(Transfer& transfer) {
  auto& flight = transfer.state<Flight>();
  flight.inside.operation = transfer.operation;
  flight.inside.due = transfer.due;
  flight.inside.clear();
  flight.left.resize(transfer.sends.size());
  flight.came.resize(transfer.receives.size());
  Times out{std::max(now_.model, out_free_.model), std::max(real_now(), out_free_.real)};
  for (std::size_t i = 0; i < transfer.sends.size(); ++i) {
    flight.left[i] = out;
    const double taken = seconds_for(transfer.sends[i].bytes.size());
    out = {out.model + taken, out.real + taken};
    flight.inside.sends.push_back(transfer.sends[i]);
    flight.inside.sends.push_back({transfer.sends[i].to, bytes_of(flight.left[i])});
  }
  for (std::size_t i = 0; i < transfer.receives.size(); ++i) {
    flight.inside.receives.push_back(transfer.receives[i]);
    flight.inside.receives.push_back(
        Receive::exactly(transfer.receives[i].from, bytes_of(flight.came[i])));
  }
  inner().start(transfer.tag(), flight.inside);
  flight.arrived = false;
  flight.done = now_;
  if (transfer.sends.empty()) return;
  out_free_ = out;
  flight.done = {out.model + link_.latency_seconds, out.real + link_.latency_seconds};
}

// When the messages that came would all have been there.
void ModelledTransport::arrive(Flight& flight, const Transfer& transfer) {
  flight.order.resize(transfer.receives.size());
  for (std::size_t i = 0; i < flight.order.size(); ++i) flight.order[i] = i;
  std::ranges::sort(flight.order, {},
                    [&](std::size_t i) { return std::pair(flight.came[i].model, i); });
  for (const std::size_t i : flight.order) {
    const Receive& receive = transfer.receives[i];
    const double taken = seconds_for(receive.into ? receive.into->size() : receive.bytes.size());
    const Times came = flight.came[i];
    in_free_.model = std::max(came.model + link_.latency_seconds, in_free_.model) + taken;
    in_free_.real = std::max(came.real + link_.latency_seconds, in_free_.real) + taken;
    flight.done.model = std::max(flight.done.model, in_free_.model);
    flight.done.real = std::max(flight.done.real, in_free_.real);
  }
  flight.arrived = true;
}

bool ModelledTransport::do_test(Transfer& transfer) {
  auto& flight = transfer.state<Flight>();
  if (!flight.arrived) {
    if (!inner().test(flight.inside)) return false;
    arrive(flight, transfer);
  }
  if (link_.sleep && real_now() < flight.done.real) {
    next_ = std::min(next_, at(flight.done.real));
    return false;
  }
  now_.model = std::max(now_.model, flight.done.model);
  return true;
}

void ModelledTransport::do_cancel(Transfer& transfer) noexcept {
  inner().cancel(transfer.state<Flight>().inside);
}

void ModelledTransport::idle(Clock::time_point until) {
  inner().idle(std::min(until, std::exchange(next_, Clock::time_point::max())));
}

TransportError ModelledTransport::lost(Transfer& transfer, const Deadline& deadline) {
  auto& flight = transfer.state<Flight>();
  if (flight.arrived)
    return TransportError("the modelled link is too slow: rank " + std::to_string(rank()) +
                          " waits for more than it can bring " + deadline.within() + " (" +
                          std::string(deadline.operation) + ")");
  return inner().lost(flight.inside, deadline);
}

}  // namespace laconic
