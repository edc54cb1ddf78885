// Ranks as processes, from C: the mean of all ranks' gradients over a communicator of the host's,
// and a rank that is told otherwise.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "laconic/laconic_c.h"

enum { COUNT = 1000 };

static int failed;

static void check(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "%s does not hold; last error: %s\n", what, laconic_last_error());
  failed = 1;
}
#define CHECK(condition) check((condition) != 0, #condition)

static void average(laconic_transport* transport, int rank, int ranks, int engine) {
  static float gradient[COUNT];
  const uint64_t shape[] = {COUNT};
  const laconic_tensor tensor = {"w", 1, shape};
  laconic_method_options options = {.struct_size = sizeof options,
                                    .recipe = "{\"name\": \"plain\"}",
                                    .tensors = &tensor,
                                    .tensor_count = 1,
                                    .timeout_seconds = 3600,
                                    .engine = engine};
  const laconic_step step = {.struct_size = sizeof step};
  laconic_method* method = NULL;
  CHECK(laconic_method_create(transport, &options, &method) == LACONIC_OK);
  for (int i = 0; i < COUNT; ++i) gradient[i] = (float)(i * rank);
  CHECK(laconic_average(method, gradient, COUNT, &step, NULL) == LACONIC_OK);
  for (int i = 0; i < COUNT; ++i) CHECK(gradient[i] == (float)i * (float)(ranks - 1) / 2);
  laconic_method_free(method);

  options.seed = rank == 1;
  CHECK(laconic_method_create(transport, &options, &method) == LACONIC_USAGE);
  CHECK(laconic_last_rank() == 1 && strstr(laconic_last_error(), "disagree on the seed") != NULL);
}

int main(int argc, char** argv) {
  int rank = 0, ranks = 0, provided = 0;
  laconic_transport* transport = NULL;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(laconic_mpi_transport(MPI_Comm_c2f(MPI_COMM_WORLD), 3600, &transport) == LACONIC_OK);
  average(transport, rank, ranks, LACONIC_ENGINE_CALLERS);
  if (provided >= MPI_THREAD_SERIALIZED) average(transport, rank, ranks, LACONIC_ENGINE_THREAD);
  laconic_transport_free(transport);
  MPI_Finalize();
  return failed;
}
