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
  // Sum floats by MPI_Iallreduce where an exchange asks for it: in MPI's order, which is not that
  // of other transports. As MPI cannot take an all-reduce back, none can be made after an attempt
  // that was aborted.
  bool own_reduce = false;
};

// This process's end, over a duplicate of a communicator: no message of the host can meet one of
// ours. All its ranks call this. The communicator is given by its Fortran handle, the one name of
// it that is the same type in every MPI: MPI_Comm_c2f(comm), or comm.py2f() in Python. Messages of
// more than 4 KB go straight from the caller's memory where Transfer::keep_alive owns it, else from
// one copy of it; they arrive straight in Buffers, and in other memory that keep_alive owns. What
// is still under way when a flight is cancelled or an end destroyed is taken in when MPI ends.
// Where the host has started MPI for its main thread alone, start may be called by that one only.
// Throws UsageError where MPI is not started.
std::unique_ptr<Transport> make_mpi_transport(int communicator, const MpiOptions& options = {});

// The same over all processes of the run (MPI_COMM_WORLD).
std::unique_ptr<Transport> make_mpi_transport(const MpiOptions& options = {});

}  // namespace laconic
