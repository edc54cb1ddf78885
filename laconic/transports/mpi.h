// Ranks as processes under MPI. A build without MPI has the same functions, which refuse.
#pragma once

#include <memory>

#include "laconic/exchange/transport.h"

namespace laconic {

// Whether this build has MPI (CMake's LACONIC_MPI).
bool has_mpi();

// MPI for the life of this object: starts it, with calls from any one thread at a time, and ends
// it. Where the host program has started it already, it is the host's and nothing is done.
class MpiSession {
 public:
  MpiSession();  // throws TransportError where MPI cannot be started
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  // Ends all processes of the run, this one with `status`: for a rank that cannot go on, as the
  // others would wait for it.
  [[noreturn]] void abort(int status);

 private:
  bool ours_ = false;
};

struct MpiOptions {
  double timeout_seconds = 60;        // for all ranks to come together
  std::size_t piece_bytes = 1 << 30;  // longer messages go in pieces; below 2^31, as MPI counts
};

// This process's end, over a duplicate of a communicator: no message of the host can meet one of
// ours. All its ranks call this. The communicator is given by its Fortran handle, the one name of
// it that is the same type in every MPI: MPI_Comm_c2f(comm), or comm.py2f() in Python. Messages are
// copied in and out, so that none of the caller's memory is MPI's when a wait ends in an error.
// After such an error the transport throws for ever. Throws UsageError where MPI is not started.
std::unique_ptr<Transport> make_mpi_transport(int communicator, const MpiOptions& options = {});

// The same over all processes of the run (MPI_COMM_WORLD).
std::unique_ptr<Transport> make_mpi_transport(const MpiOptions& options = {});

}  // namespace laconic
