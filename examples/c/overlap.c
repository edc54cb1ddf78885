// Four ranks, as threads of this process, average their gradients while backward still computes:
// gradients of layers become ready last to first, and each bucket of them travels while those of
// the layers before it are being made.
//
//   cc -std=c99 overlap.c $(pkg-config --cflags --libs laconic) -lpthread -o overlap && ./overlap
//
// With MPI only the transport is made otherwise: laconic_mpi_transport(MPI_Comm_c2f(comm), 0, &t).
// With another messaging layer: laconic_transport_from_callbacks.
#include <laconic/laconic_c.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 4, LAYERS = 8, BUCKET = 2, ROWS = 100, COLUMNS = 300, COUNT = ROWS * COLUMNS };
enum { STEPS = 3 };

typedef struct Worker {
  laconic_thread_group* group;
  int rank;
  laconic_status status;
  float gradients[LAYERS][COUNT];
} Worker;

// Stands for backward of one layer: some numbers around 0, others on every rank.
static void compute(float* gradient, unsigned seed) {
  for (int i = 0; i < COUNT; ++i) {
    seed = seed * 1664525u + 1013904223u;
    gradient[i] = ((float)(seed >> 8) / (1 << 23) - 1) * 0.01f;
  }
}

// The last layer's gradient is there first. A bucket is handed over as soon as it is complete.
static laconic_status backward(laconic_method* method, Worker* worker, uint64_t step) {
  laconic_status status = LACONIC_OK;
  for (size_t layer = LAYERS; layer > 0 && !status; layer -= BUCKET) {
    size_t tensors[BUCKET];
    void* data[BUCKET];
    for (size_t i = 0; i < BUCKET; ++i) {
      tensors[i] = layer - 1 - i;
      data[i] = worker->gradients[tensors[i]];
      compute(data[i], (unsigned)(step * LAYERS + tensors[i]) * RANKS + (unsigned)worker->rank);
    }
    status = laconic_submit(method, tensors, data, NULL, BUCKET, LACONIC_FLOAT32, NULL);
  }
  return status;
}

static laconic_status train(laconic_method* method, Worker* worker) {
  laconic_status status = LACONIC_OK;
  for (uint64_t i = 0; i < STEPS && !status; ++i) {
    const laconic_step step = {.struct_size = sizeof step, .step = i, .lr = 0.1f};
    laconic_stats stats = {.struct_size = sizeof stats};
    status = laconic_begin(method, &step);
    if (!status) status = backward(method, worker, i);
    if (!status) status = laconic_finish(method, &stats);
    // Here the optimiser makes its update with the means, if stats.finite.
    if (!status && stats.finite) status = laconic_commit(method);
    if (!status && worker->rank == 0)
      printf("step %d: %d bytes for %d of gradient; held up for %.2f ms by %.2f ms of work\n",
             (int)i, (int)stats.wire_bytes, (int)stats.dense_bytes, 1e3 * stats.exposed_seconds,
             1e3 * (stats.compress_seconds + stats.decompress_seconds + stats.exchange_seconds));
  }
  return status;
}

static void* work(void* self) {
  Worker* worker = self;
  const uint64_t shape[] = {ROWS, COLUMNS};
  laconic_tensor tensors[LAYERS];
  char names[LAYERS][16];
  for (int i = 0; i < LAYERS; ++i) {
    snprintf(names[i], sizeof names[i], "layer%d", i);
    tensors[i] = (laconic_tensor){names[i], 2, shape};
  }
  const laconic_method_options options = {.struct_size = sizeof options,
                                          .recipe = "natural-feedback",
                                          .tensors = tensors,
                                          .tensor_count = LAYERS,
                                          .unit_bytes = BUCKET * COUNT * sizeof(float)};
  laconic_transport* transport = NULL;
  laconic_method* method = NULL;
  worker->status = laconic_thread_group_transport(worker->group, worker->rank, &transport);
  if (!worker->status) worker->status = laconic_method_create(transport, &options, &method);
  if (!worker->status) worker->status = train(method, worker);
  if (worker->status) fprintf(stderr, "rank %d: %s\n", worker->rank, laconic_last_error());
  laconic_method_free(method);
  laconic_transport_free(transport);
  return NULL;
}

int main(void) {
  laconic_thread_group* group = NULL;
  pthread_t threads[RANKS];
  Worker* workers = calloc(RANKS, sizeof *workers);
  int worst = workers ? laconic_thread_group_create(RANKS, &group) : LACONIC_SYSTEM;
  for (int i = 0; i < RANKS && group; ++i) {
    workers[i].group = group;
    workers[i].rank = i;
    pthread_create(&threads[i], NULL, work, &workers[i]);
  }
  for (int i = 0; i < RANKS && group; ++i) {
    pthread_join(threads[i], NULL);
    if (workers[i].status) worst = workers[i].status;
  }
  laconic_thread_group_free(group);
  free(workers);
  return worst;
}
