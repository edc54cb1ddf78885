// Four ranks, as threads of this process, average their gradients with natural compression.
//
//   cc -std=c99 average.c $(pkg-config --cflags --libs laconic) -lpthread -o average && ./average
//
// With MPI or another messaging layer only the laconic_transport is made otherwise: fill in rank,
// size and an `exchange` of your own instead of calling laconic_thread_group_transport.
#include <laconic/laconic_c.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 4, ROWS = 100, COLUMNS = 300, COUNT = ROWS * COLUMNS, STEPS = 3 };

typedef struct Worker {
  laconic_thread_group* group;
  int rank;
  laconic_status status;
} Worker;

// Stands for backpropagation: some numbers around 0, others on every rank.
static void compute(float* gradient, unsigned seed) {
  for (int i = 0; i < COUNT; ++i) {
    seed = seed * 1664525u + 1013904223u;
    gradient[i] = ((float)(seed >> 8) / (1 << 23) - 1) * 0.01f;
  }
}

static laconic_status train(laconic_aggregator* aggregator, int rank, float* gradient) {
  laconic_status status = LACONIC_OK;
  for (uint64_t i = 0; i < STEPS && status == LACONIC_OK; ++i) {
    const laconic_step step = {.struct_size = sizeof step, .step = i, .lr = 0.1f};
    laconic_stats stats = {.struct_size = sizeof stats};
    compute(gradient, (unsigned)((int)i * RANKS + rank));
    status = laconic_average(aggregator, gradient, COUNT, &step, &stats);
    if (status == LACONIC_OK && rank == 0)
      printf("step %d: a frame of %d bytes for %d of gradient, |residual| %g\n", (int)i,
             (int)stats.wire_bytes, (int)stats.dense_bytes, stats.residual_norm);
  }
  return status;
}

static void* work(void* self) {
  Worker* worker = self;
  const uint64_t shape[] = {ROWS, COLUMNS};
  const laconic_tensor tensors[] = {{"dense.weight", 2, shape}};
  const laconic_options options = {.struct_size = sizeof options,
                                   .op = "natural+entropy",
                                   .memory = "feedback",
                                   .tensors = tensors,
                                   .tensor_count = 1};
  laconic_transport transport = {.struct_size = sizeof transport};
  laconic_aggregator* aggregator = NULL;
  float* gradient = malloc(COUNT * sizeof *gradient);
  worker->status = laconic_thread_group_transport(worker->group, worker->rank, &transport);
  if (!worker->status)
    worker->status = laconic_aggregator_create(&transport, &options, &aggregator);
  if (!worker->status) worker->status = train(aggregator, worker->rank, gradient);
  if (worker->status) fprintf(stderr, "rank %d: %s\n", worker->rank, laconic_last_error());
  laconic_aggregator_free(aggregator);
  laconic_thread_group_leave(worker->group, worker->rank);
  free(gradient);
  return NULL;
}

int main(void) {
  laconic_thread_group* group = NULL;
  pthread_t threads[RANKS];
  Worker workers[RANKS];
  int worst = laconic_thread_group_create(RANKS, &group);
  if (worst) return worst;
  for (int i = 0; i < RANKS; ++i) {
    workers[i] = (Worker){group, i, LACONIC_OK};
    pthread_create(&threads[i], NULL, work, &workers[i]);
  }
  for (int i = 0; i < RANKS; ++i) {
    pthread_join(threads[i], NULL);
    if (workers[i].status) worst = workers[i].status;
  }
  laconic_thread_group_free(group);
  return worst;
}
