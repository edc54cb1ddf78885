// Rank 2 is killed; the others are told so within their time: mpirun --enable-recovery -n 4.
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "laconic/laconic.h"

int main() {
  const laconic::MpiSession session;
  const auto transport = laconic::make_mpi_transport();
  std::vector<laconic::Buffer> all;
  transport->all_gather({}, all, 0, laconic::Deadline::in(120, "a first meeting"));
  if (transport->rank() == 2) std::raise(SIGKILL);
  try {
    transport->all_gather({}, all, 0, laconic::Deadline::in(5, "a second meeting"));
  } catch (const laconic::TransportError& error) {
    std::printf("rank %d is told: %s\n", transport->rank(), error.what());
  }
  std::fflush(stdout);
  std::_Exit(0);  // MPI_Finalize would wait for the dead
}
