// Steps in parts: submitted from several threads while others compute, waited for, undone, tried
// again.
#include "hub.h"

enum { TENSORS = 5, WIDTH = 3000, COUNT = TENSORS * WIDTH };

static const uint64_t shape[] = {3, 1000};
static const laconic_tensor tensors[TENSORS] = {
    {"a", 2, shape}, {"b", 2, shape}, {"c", 2, shape}, {"d", 2, shape}, {"e", 2, shape}};

static laconic_method_options options_of(const char* recipe) {
  const laconic_method_options options = {.struct_size = sizeof options,
                                          .recipe = recipe,
                                          .tensors = tensors,
                                          .tensor_count = TENSORS,
                                          .seed = 5,
                                          .timeout_seconds = 3600,
                                          .unit_bytes = 1};
  return options;
}

static const char* const feedback =
    "{\"name\": \"f\", \"op\": \"topk:0.1\", \"memory\": \"feedback\"}";

static void begin(laconic_method* method, uint64_t number) {
  const laconic_step step = {.struct_size = sizeof step, .step = number, .lr = 0.1f};
  CHECK_OK(laconic_begin(method, &step));
}

static size_t submit(laconic_method* method, size_t tensor, float* gradient) {
  void* data = gradient + tensor * WIDTH;
  size_t part = 99;
  CHECK_OK(laconic_submit(method, &tensor, &data, NULL, 1, LACONIC_FLOAT32, &part));
  return part;
}

// ---- overlapped ----

// Two threads of a rank stand for two halves of backward; they submit in an agreed order.
typedef struct Turns {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  size_t next;  // tensors submitted so far
  laconic_method* method;
  float* gradient;
} Turns;

typedef struct Half {
  Turns* turns;
  size_t first;
} Half;

static void* compute_half(void* self) {
  const Half* half = self;
  Turns* turns = half->turns;
  for (size_t k = half->first; k < TENSORS; k += 2) {
    pthread_mutex_lock(&turns->mutex);
    while (turns->next != k) pthread_cond_wait(&turns->changed, &turns->mutex);
    CHECK(submit(turns->method, TENSORS - 1 - k, turns->gradient) == k);  // last layer first
    ++turns->next;
    pthread_cond_broadcast(&turns->changed);
    pthread_mutex_unlock(&turns->mutex);
    int done = -1;
    CHECK_OK(laconic_poll(turns->method, k, &done));
    CHECK(done == 0 || done == 1);
  }
  return NULL;
}

static void submit_by_halves(laconic_method* method, float* gradient) {
  Turns turns = {.method = method, .gradient = gradient};
  pthread_t threads[2];
  Half halves[2] = {{&turns, 0}, {&turns, 1}};
  pthread_mutex_init(&turns.mutex, NULL);
  pthread_cond_init(&turns.changed, NULL);
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, compute_half, &halves[i]);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  pthread_cond_destroy(&turns.changed);
  pthread_mutex_destroy(&turns.mutex);
}

// What comes in parts is what comes in one call.
static void* overlap(void* self) {
  const Rank* rank = self;
  static float whole[RANKS][COUNT], parts[RANKS][COUNT];
  float* a = whole[rank->rank];
  float* b = parts[rank->rank];
  laconic_method_options options = options_of(feedback);
  laconic_method* reference = method_on(rank->transport, &options);
  options.engine = *(const int*)rank->common;
  laconic_method* method = method_on(rank->transport, &options);
  for (uint64_t number = 0; number < 3; ++number) {
    const laconic_step step = {.struct_size = sizeof step, .step = number, .lr = 0.1f};
    laconic_stats stats = {.struct_size = sizeof stats};
    int done = -1;
    fill(a, COUNT, (unsigned)(10 * (int)number + rank->rank));
    memcpy(b, a, sizeof whole[0]);
    CHECK_OK(laconic_average(reference, a, COUNT, &step, NULL));
    CHECK_OK(laconic_begin(method, &step));
    submit_by_halves(method, b);
    CHECK_OK(laconic_wait(method, 0, 0, &done));
    CHECK(done == 1);
    CHECK_OK(laconic_finish(method, &stats));
    CHECK(stats.finite && stats.dense_bytes == sizeof whole[0]);
    CHECK(same_bytes(a, b, sizeof whole[0]));
    CHECK_OK(laconic_commit(method));
  }
  laconic_method_free(method);
  laconic_method_free(reference);
  return NULL;
}

// ---- waiting with a limit ----

static void* wait_a_while(void* self) {
  const Rank* rank = self;
  static float gradients[RANKS][COUNT];
  laconic_method_options options = options_of("{\"name\": \"plain\"}");
  options.engine = *(const int*)rank->common;
  laconic_method* method = method_on(rank->transport, &options);
  int done = -1;
  begin(method, 0);
  if (rank->rank == 0) {
    submit(method, 0, gradients[0]);
    CHECK_OK(laconic_wait(method, 0, 0.001, &done));
    CHECK(done == 0);  // the others have not begun
    CHECK_FAILS(laconic_wait(method, 0, NAN, &done), LACONIC_USAGE, "");
  }
  pthread_barrier_wait(rank->barrier);
  for (size_t t = rank->rank == 0; t < TENSORS; ++t) submit(method, t, gradients[rank->rank]);
  CHECK_OK(laconic_wait(method, 0, 3600, &done));
  CHECK(done == 1);
  CHECK_OK(laconic_finish(method, NULL));
  laconic_method_free(method);
  return NULL;
}

// ---- undone, and tried again ----

static void* undo(void* self) {
  const Rank* rank = self;
  static float gradients[RANKS][2][COUNT];
  float(*g)[COUNT] = gradients[rank->rank];
  const laconic_method_options options = options_of(feedback);
  laconic_method* method = method_on(rank->transport, &options);
  size_t before_size = 0, after_size = 0;
  void* before = saved(method, NULL, &before_size);
  int outcome = -1;
  for (int attempt = 0; attempt < 2; ++attempt) {
    fill(g[attempt], COUNT, (unsigned)rank->rank);
    begin(method, 7);
    for (size_t t = 0; t < TENSORS; ++t) submit(method, t, g[attempt]);
    CHECK_OK(laconic_finish(method, NULL));
    CHECK_FAILS(laconic_method_save(method, NULL, NULL, 0, &after_size), LACONIC_USAGE,
                "a step is open");
    CHECK_OK(laconic_rollback(method));
    CHECK_OK(laconic_outcome(method, &outcome));
    CHECK(outcome == LACONIC_ROLLED_BACK);
    CHECK_FAILS(laconic_commit(method), LACONIC_USAGE, "commit of no step");
    void* after = saved(method, NULL, &after_size);
    CHECK(after_size == before_size && same_bytes(before, after, after_size));
    free(after);
  }
  CHECK(same_bytes(g[0], g[1], sizeof g[0]));  // tried again, a step draws and sends the same
  free(before);
  laconic_method_free(method);
  return NULL;
}

static void* abort_and_retry(void* self) {
  const Rank* rank = self;
  static float gradients[RANKS][COUNT];
  float* gradient = gradients[rank->rank];
  const laconic_method_options options = options_of(feedback);
  laconic_method* method = method_on(rank->transport, &options);
  begin(method, 0);
  submit(method, 0, gradient);
  if (rank->rank == 1) {
    CHECK_OK(laconic_abort(method, "backward has thrown"));
    CHECK_FAILS(laconic_finish(method, NULL), LACONIC_SYSTEM, "backward has thrown");
  } else {
    for (size_t t = 1; t < TENSORS; ++t) submit(method, t, gradient);
    CHECK_FAILS(laconic_finish(method, NULL), LACONIC_TRANSPORT,
                "rank 1 cannot go on: backward has thrown");
    CHECK(laconic_last_rank() == 1);
  }
  begin(method, 0);
  for (size_t t = 0; t < TENSORS; ++t) submit(method, t, gradient);
  CHECK_OK(laconic_finish(method, NULL));
  CHECK_OK(laconic_commit(method));
  CHECK_OK(laconic_abort(method, "nothing is under way"));
  laconic_method_free(method);
  return NULL;
}

// ---- half precision, and tensors that rest ----

static void* in_half_precision(void* self) {
  const Rank* rank = self;
  static uint16_t gradients[RANKS][WIDTH];
  const laconic_method_options options = options_of(feedback);
  laconic_method* method = method_on(rank->transport, &options);
  uint16_t* gradient = gradients[rank->rank];
  const size_t which[] = {3, 1};
  void* const data[] = {gradient, gradients[rank->rank]};
  const unsigned char rests[] = {0};
  static float residual[RANKS][WIDTH];
  for (size_t i = 0; i < WIDTH; ++i) gradient[i] = i % 10 ? 0x3f80 : 0x4080;  // 1 and 4
  begin(method, 0);
  CHECK_OK(laconic_submit(method, which, data, rests, 1, LACONIC_BFLOAT16, NULL));
  laconic_stats stats = {.struct_size = sizeof stats};
  CHECK_OK(laconic_finish(method, &stats));  // the others rest
  CHECK(stats.dense_bytes == 2 * WIDTH && gradient[0] == 0x4080 && gradient[1] == 0);
  CHECK_OK(laconic_commit(method));
  CHECK_OK(laconic_state_get(method, "feedback/d", residual[rank->rank], WIDTH));
  CHECK(residual[rank->rank][0] == 0 && residual[rank->rank][1] == 1);
  const unsigned char resting[] = {1};
  memset(gradient, 0, sizeof gradients[0]);
  begin(method, 1);
  CHECK_OK(laconic_submit(method, which, data, resting, 1, LACONIC_FLOAT16, NULL));
  CHECK_OK(laconic_finish(method, NULL));
  CHECK(gradient[0] == 0 && gradient[1] == 0);
  CHECK_OK(laconic_commit(method));
  CHECK_OK(laconic_state_get(method, "feedback/d", residual[rank->rank], WIDTH));
  CHECK(residual[rank->rank][0] == 0 && residual[rank->rank][1] == 1);
  laconic_method_free(method);
  return NULL;
}

// ---- verbs in another order ----

static void wrong_order(void) {
  const laconic_callbacks alone = {.struct_size = sizeof alone, .size = 1};
  laconic_transport* transport = NULL;
  static float gradient[COUNT];
  size_t which = 0, none = 9;
  void *data = gradient, *nothing = NULL;
  int done = 0, outcome = -1;
  CHECK_OK(laconic_transport_from_callbacks(&alone, &transport));
  const laconic_method_options options =
      options_of("{\"name\": \"w\", \"op\": \"topk:0.1\", \"layout\": \"whole\"}");
  laconic_method* method = method_on(transport, &options);
  CHECK_OK(laconic_outcome(method, &outcome));
  CHECK(outcome == LACONIC_NONE);
  CHECK_FAILS(laconic_submit(method, &which, &data, NULL, 1, LACONIC_FLOAT32, NULL), LACONIC_USAGE,
              "submit without a step");
  CHECK_FAILS(laconic_finish(method, NULL), LACONIC_USAGE, "finish without a step");
  CHECK_FAILS(laconic_commit(method), LACONIC_USAGE, "commit of no step");
  CHECK_FAILS(laconic_rollback(method), LACONIC_USAGE, "rollback of no step");
  begin(method, 0);
  const laconic_step step = {.struct_size = sizeof step};
  CHECK_FAILS(laconic_begin(method, &step), LACONIC_USAGE, "begin within step 0");
  CHECK_FAILS(laconic_submit(method, &none, &data, NULL, 1, LACONIC_FLOAT32, NULL), LACONIC_USAGE,
              "tensor 9 is none of the model's");
  CHECK_FAILS(laconic_submit(method, &which, &nothing, NULL, 1, LACONIC_FLOAT32, NULL),
              LACONIC_USAGE, "('a') has no array");
  CHECK_FAILS(laconic_submit(method, &which, &data, NULL, 1, LACONIC_FLOAT64, NULL), LACONIC_USAGE,
              "laconic_dtype 2");
  CHECK_FAILS(laconic_poll(method, 0, &done), LACONIC_USAGE, "part 0 was not submitted");
  submit(method, 0, gradient);
  CHECK_FAILS(laconic_submit(method, &which, &data, NULL, 1, LACONIC_FLOAT32, NULL), LACONIC_USAGE,
              "('a') was submitted before");
  CHECK_FAILS(laconic_wait(method, 0, 0, &done), LACONIC_USAGE, "part 0 waits for tensor 'b'");
  CHECK_FAILS(laconic_finish(method, NULL), LACONIC_USAGE, "the step ends without tensor 'b'");
  begin(method, 0);
  for (size_t t = 0; t < TENSORS; ++t) submit(method, t, gradient);
  laconic_tensor_cost cost = {.struct_size = sizeof cost};
  CHECK_FAILS(laconic_tensor_stats(method, 0, &cost), LACONIC_USAGE, "a step is open");
  CHECK_OK(laconic_finish(method, NULL));
  begin(method, 1);  // commits
  laconic_method_free(method);
  laconic_transport_free(transport);
}

// ---- what tensors cost, and what is left when a rank has gone ----

static void* count_and_settle(void* self) {
  const Rank* rank = self;
  static float gradients[RANKS][COUNT];
  float* g = gradients[rank->rank];
  const laconic_method_options options = options_of(feedback);
  laconic_method* method = method_on(rank->transport, &options);
  laconic_stats stats = {.struct_size = sizeof stats};
  uint64_t payload = 0, dense = 0;
  int outcome = -1;
  fill(g, COUNT, (unsigned)rank->rank);
  memset(g, 0, WIDTH * sizeof *g);  // what says nothing costs nothing
  begin(method, 0);
  for (size_t t = 0; t < TENSORS; ++t) submit(method, t, g);
  CHECK_OK(laconic_finish(method, &stats));
  for (size_t t = 0; t < TENSORS; ++t) {
    laconic_tensor_cost cost = {.struct_size = sizeof cost};
    CHECK_OK(laconic_tensor_stats(method, t, &cost));
    CHECK((cost.rests != 0) == (t == 0));
    CHECK((cost.payload_bytes == 0) == (t == 0));
    payload += cost.payload_bytes;
    dense += cost.dense_bytes;
  }
  CHECK(payload == stats.payload_bytes && dense == stats.dense_bytes);
  laconic_tensor_cost none = {.struct_size = sizeof none};
  CHECK_FAILS(laconic_tensor_stats(method, TENSORS, &none), LACONIC_USAGE, "no tensor");
  CHECK_OK(laconic_settle(method, rank->transport, &outcome));
  CHECK(outcome == LACONIC_COMMITTED);
  laconic_method_free(method);
  return NULL;
}

void test_steps(void) {
  for (int engine = LACONIC_ENGINE_THREAD; engine <= LACONIC_ENGINE_CALLERS; ++engine) {
    run_in_group(overlap, &engine);
    run_in_group(wait_a_while, &engine);
  }
  int engine = LACONIC_ENGINE_THREAD;
  run_on_hub(overlap, &engine);
  run_by_post(overlap, &engine);
  run_by_post(wait_a_while, &engine);
  run_by_post(abort_and_retry, NULL);
  run_in_group(undo, NULL);
  run_in_group(count_and_settle, NULL);
  run_in_group(abort_and_retry, NULL);
  run_in_group(in_half_precision, NULL);
  wrong_order();
}
