// The start of every test that mpirun runs: each process is one rank.
#include <gtest/gtest.h>

#include "laconic/transports/mpi.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const laconic::MpiSession session;
  return RUN_ALL_TESTS();
}
