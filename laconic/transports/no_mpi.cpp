// mpi, where the library is built without MPI.
#include "laconic/base/errors.h"
#include "laconic/transports/mpi.h"

namespace laconic {
namespace {

[[noreturn]] void refuse() {
  throw UsageError("this build has no MPI; configure with -DLACONIC_MPI=ON");
}

}  // namespace

bool has_mpi() { return false; }

MpiSession::MpiSession() {
  ours_ = false;
  refuse();
}
MpiSession::~MpiSession() = default;
void MpiSession::abort(int) { refuse(); }

std::unique_ptr<Transport> make_mpi_transport(int, const MpiOptions&) { refuse(); }
std::unique_ptr<Transport> make_mpi_transport(const MpiOptions&) { refuse(); }

}  // namespace laconic
