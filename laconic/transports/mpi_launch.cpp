// Processes that mpirun has started. Where one calls MPI_Abort, it ends all of them.
#include <cstdlib>

#include "laconic/transports/launch.h"
#include "laconic/transports/mpi.h"

namespace laconic {
namespace {

class MpiMembership : public Membership {
 public:
  explicit MpiMembership(double timeout_seconds)
      : session_(std::make_unique<MpiSession>()),
        transport_(make_mpi_transport(MpiOptions{.timeout_seconds = timeout_seconds})) {}

  Transport& transport() override { return *transport_; }

  void end_all(int status, std::string_view) override { session_->abort(status); }

  // The status of the run is that of rank 0; the others wait until they are ended.
  void end_together(int status) override {
    if (transport_->rank() == 0) session_->abort(status);
    transport_.reset();
    session_.reset();
    std::_Exit(status);
  }

 private:
  std::unique_ptr<MpiSession> session_;
  std::unique_ptr<Transport> transport_;
};

const RegisterLaunch mpi{{
    .name = "mpi",
    .how = "each process that mpirun starts is a worker",
    .join = [](double timeout) { return std::make_unique<MpiMembership>(timeout); },
}};

}  // namespace
}  // namespace laconic
