// Processes that were told by their environment who they are, as torchrun and others do.
#include <charconv>
#include <cstdlib>
#include <string>

#include "laconic/transports/launch.h"
#include "laconic/transports/sockets.h"

namespace laconic {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

int number(const char* name, int least, int most) {
  const std::string text = variable(name);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < least ||
      value > most)
    throw UsageError(std::string(name) + " is '" + text + "' in the environment; allowed: " +
                     std::to_string(least) + " to " + std::to_string(most) +
                     " (sockets needs RANK, WORLD_SIZE and MASTER_PORT, and takes MASTER_ADDR)");
  return value;
}

class SocketsMembership : public Membership {
 public:
  explicit SocketsMembership(double timeout_seconds) {
    const int size = number("WORLD_SIZE", 1, 65536);
    const int rank = number("RANK", 0, size - 1);
    Meeting meeting{.port = number("MASTER_PORT", 1, 65535),
                    .token = variable("LACONIC_TOKEN"),
                    .timeout_seconds = timeout_seconds};
    if (const std::string host = variable("MASTER_ADDR"); !host.empty()) meeting.host = host;
    transport_ = join_sockets(rank, size, meeting);
  }

  Transport& transport() override { return *transport_; }

  void end_all(int status, std::string_view reason) override {
    transport_->poison(transport_->rank(), reason);
    end_together(status);
  }

  void end_together(int status) override {
    transport_.reset();
    std::_Exit(status);
  }

 private:
  std::unique_ptr<Transport> transport_;
};

const RegisterLaunch sockets{{
    .name = "sockets",
    .how = "each process with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT is a worker",
    .join = [](double timeout) { return std::make_unique<SocketsMembership>(timeout); },
}};

}  // namespace
}  // namespace laconic
