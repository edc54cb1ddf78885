// modelled: every message is followed by its sender's clock.
#include "laconic/transports/modelled.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "laconic/base/errors.h"

namespace laconic {
namespace {

using Clock = std::chrono::steady_clock;

std::span<std::uint8_t> bytes_of(double& time) {
  return {reinterpret_cast<std::uint8_t*>(&time), sizeof time};
}

const RegisterTransport modelled{{
    .name = "modelled",
    .summary = "Another transport, timed as over a link of given latency and bandwidth.",
    .paper = "",
    .parameters = {},
}};

}  // namespace

ModelledTransport::ModelledTransport(std::unique_ptr<Transport> inner, const Link& link)
    : inner_(std::move(inner)), link_(link) {
  if (!(link.latency_seconds >= 0 && std::isfinite(link.latency_seconds)))
    throw UsageError("a latency of " + std::to_string(link.latency_seconds) +
                     " seconds; allowed: 0 and more");
  if (!(link.bits_per_second > 0))
    throw UsageError("a bandwidth of " + std::to_string(link.bits_per_second) +
                     " bits per second; allowed: above 0");
}

double ModelledTransport::done_sending(std::span<const Send> sends) const {
  if (sends.empty()) return seconds_;
  double bytes = 0;
  for (const Send& send : sends) bytes += static_cast<double>(send.bytes.size());
  return seconds_ + link_.latency_seconds + 8 * bytes / link_.bits_per_second;
}

void ModelledTransport::do_exchange(std::span<const Send> sends, std::span<const Receive> receives,
                                    const Deadline& deadline) {
  const auto began = Clock::now();
  double done = done_sending(sends);
  std::vector<double> arrivals(receives.size());
  std::vector<Send> out;
  std::vector<Receive> in;
  for (const Send& send : sends) {
    out.push_back(send);
    out.push_back({send.to, bytes_of(done)});
  }
  for (std::size_t i = 0; i < receives.size(); ++i) {
    in.push_back(receives[i]);
    in.push_back({receives[i].from, bytes_of(arrivals[i])});
  }
  inner_->exchange(out, in, deadline);
  for (const double arrival : arrivals) done = std::max(done, arrival);
  // A day at most: the system's clock has no room for every double.
  const std::chrono::duration<double> taken(std::min(done - seconds_, 86400.0));
  seconds_ = done;
  if (link_.sleep) std::this_thread::sleep_until(began + taken);
}

}  // namespace laconic
