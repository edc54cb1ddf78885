// Four ranks average their gradients in one call, over a transport written in C and over the
// library's thread group.
#include "hub.h"

enum { COUNT = 5003, STEPS = 6 };

static const uint64_t conv_shape[] = {10, 500}, bias_shape[] = {3};
static const laconic_tensor tensors[] = {{"conv", 2, conv_shape}, {"bias", 1, bias_shape}};

typedef float Results[RANKS][STEPS][COUNT];

static laconic_method_options options_of(const char* recipe) {
  const laconic_method_options options = {
      .struct_size = sizeof options,
      .recipe = recipe,
      .tensors = tensors,
      .tensor_count = 2,
      .seed = 11,
      .timeout_seconds = 3600,
      .threads = 2,
  };
  return options;
}

static const char* const plain = "{\"name\": \"plain\"}";
static const char* const feedback =
    "{\"name\": \"f\", \"op\": \"natural+entropy\", \"memory\": \"feedback\", \"layout\": "
    "\"tensor\","
    " \"rules\": [\"name=*ias,op=identity\"]}";
static const char* const otherwise_cut =
    "{\"name\": \"f\", \"op\": \"natural+entropy\", \"memory\": \"feedback\", \"layout\": "
    "\"split:1000\","
    " \"rules\": [\"name=*ias,op=identity\"]}";

static laconic_stats average(laconic_method* method, float* gradient, uint64_t step) {
  const float* const parameters[] = {gradient, gradient + 5000};
  const laconic_step info = {
      .struct_size = sizeof info, .step = step, .lr = 0.1f, .flags = 4, .parameters = parameters};
  laconic_stats stats = {.struct_size = sizeof stats};
  CHECK_OK(laconic_average(method, gradient, COUNT, &info, &stats));
  CHECK(stats.dense_bytes == COUNT * sizeof(float) && stats.flags == 4);
  CHECK(stats.compress_seconds >= 0 && stats.exchange_seconds >= 0 && stats.decompress_seconds > 0);
  CHECK(stats.exposed_seconds > 0 && stats.update_seconds == 0);
  CHECK(stats.rounds > 0 && stats.vote_bytes > 0 && stats.vote_bytes < stats.traffic_bytes);
  return stats;
}

static double residual_of(const laconic_method* method) {
  double norm = -1;
  CHECK_OK(laconic_residual_norm(method, &norm));
  return norm;
}

static void gradient_of(int rank, int step, float* gradient) {
  fill(gradient, COUNT, (unsigned)(1000 + RANKS * step + rank));
}

static void check_all_equal(Results results) {
  for (int rank = 1; rank < RANKS; ++rank)
    CHECK(same_bytes(results[rank], results[0], sizeof results[0]));
}

// ---- identity: the mean is known ----

static void* average_identity(void* self) {
  const Rank* rank = self;
  Results* results = rank->common;
  laconic_method_options options = options_of(plain);
  options.engine = rank->rank % 2 ? LACONIC_ENGINE_CALLERS : LACONIC_ENGINE_THREAD;
  laconic_method* method = method_on(rank->transport, &options);
  for (int step = 0; step < STEPS; ++step) {
    float* gradient = (*results)[rank->rank][step];
    gradient_of(rank->rank, step, gradient);
    const laconic_stats stats = average(method, gradient, (uint64_t)step);
    CHECK(stats.finite && residual_of(method) == 0);
    CHECK(stats.payload_bytes == stats.dense_bytes && stats.wire_bytes > stats.payload_bytes);
    CHECK(stats.traffic_bytes >= (RANKS - 1) * stats.wire_bytes);
    CHECK(stats.up_bytes == stats.wire_bytes && stats.down_bytes == 0);
  }
  laconic_method_free(method);
  return NULL;
}

static void check_means(Results results) {
  static float expected[COUNT], gradient[COUNT];
  check_all_equal(results);
  for (int step = 0; step < STEPS; ++step) {
    memset(expected, 0, sizeof expected);
    for (int rank = 0; rank < RANKS; ++rank) {
      gradient_of(rank, step, gradient);
      for (size_t i = 0; i < COUNT; ++i) expected[i] += 0.25f * gradient[i];
    }
    CHECK(same_bytes(results[0][step], expected, sizeof expected));
  }
}

// ---- dense: by the transport's own all-reduce, and by a ring of exchanges ----

static void* average_dense(void* self) {
  Rank* rank = self;
  Results* results = rank->common;
  const laconic_method_options options = options_of("dense");
  rank->callbacks.all_reduce_float = hub_all_reduce;
  for (int own = 0; own < 2; ++own) {
    laconic_transport* transport = rank->transport;
    if (own) CHECK_OK(laconic_transport_from_callbacks(&rank->callbacks, &transport));
    laconic_method* method = method_on(transport, &options);
    gradient_of(rank->rank, 0, (*results)[rank->rank][own]);
    const laconic_stats stats = average(method, (*results)[rank->rank][own], 0);
    CHECK(stats.traffic_bytes < 2 * stats.dense_bytes);
    laconic_method_free(method);
    if (own) laconic_transport_free(transport);
  }
  return NULL;
}

// ---- feedback: saved in the middle, continued by another method that cuts the model otherwise
// ----

static void* average_with_feedback(void* self) {
  const Rank* rank = self;
  Results* results = rank->common;
  const int me = rank->rank;
  const laconic_method_options options = options_of(feedback), other = options_of(otherwise_cut);
  laconic_method* first = method_on(rank->transport, &options);
  laconic_method* second = method_on(rank->transport, &other);
  static float unused[RANKS][COUNT];
  void* state = NULL;
  size_t size = 0;
  for (int step = 0; step < STEPS; ++step) {
    if (step == STEPS / 2) state = saved(first, NULL, &size);
    gradient_of(me, step, (*results)[me][step]);
    average(first, (*results)[me][step], (uint64_t)step);
    CHECK(residual_of(first) > 0);
  }
  gradient_of(me, 0, unused[me]);
  average(second, unused[me], 0);  // what it remembers of this is replaced
  CHECK_OK(laconic_method_load(second, state, size, 0, NULL));
  for (int step = STEPS / 2; step < STEPS; ++step) {
    gradient_of(me, step, unused[me]);
    average(second, unused[me], (uint64_t)step);
    CHECK(same_bytes(unused[me], (*results)[me][step], sizeof unused[me]));
  }
  size_t a = 0, b = 0;
  void *one = saved(first, NULL, &a), *two = saved(second, NULL, &b);
  CHECK(a == b && same_bytes(one, two, a));
  free(one);
  free(two);
  free(state);
  memset(unused[me], 0, sizeof unused[me]);
  const laconic_step last = {.struct_size = sizeof last, .step = STEPS, .plain = 1};
  laconic_stats cost = {.struct_size = sizeof cost};
  CHECK_OK(laconic_average(first, unused[me], COUNT, &last, &cost));  // all that is owed
  CHECK(residual_of(first) == 0 && cost.lane == 2 && cost.payload_bytes == COUNT * sizeof(float));
  laconic_method_free(second);
  laconic_method_free(first);
  return NULL;
}

// ---- NaN on one rank: all ranks know, nobody remembers ----

static void* average_nan(void* self) {
  const Rank* rank = self;
  const int me = rank->rank;
  static float gradients[RANKS][COUNT];
  const laconic_method_options options = options_of(feedback);
  laconic_method* method = method_on(rank->transport, &options);
  int outcome = -1;
  gradient_of(me, 0, gradients[me]);
  average(method, gradients[me], 0);
  CHECK_OK(laconic_outcome(method, &outcome));
  CHECK(outcome == LACONIC_COMMITTED);
  size_t before_size = 0, after_size = 0;
  void* before = saved(method, NULL, &before_size);
  if (me == 2) gradients[me][7] = NAN;
  const laconic_stats stats = average(method, gradients[me], 1);
  CHECK(!stats.finite && isnan(gradients[me][7]));
  CHECK_OK(laconic_outcome(method, &outcome));
  CHECK(outcome == LACONIC_ROLLED_BACK);
  void* after = saved(method, NULL, &after_size);
  CHECK(before_size == after_size && same_bytes(before, after, after_size));
  free(after);
  free(before);
  laconic_method_free(method);
  return NULL;
}

// ---- every way of averaging leaves all ranks with the same ----

static void* average_by_recipe(void* self) {
  static const char ranks_by_tensor[] =
      "{\"name\": \"r\", \"exchange\": \"powersgd:2\", \"rules\": [\"name=conv,rank=3\"]}";
  static const char* const names[] = {"natural-sharded",
                                      "natural-bidirectional",
                                      "randomk",
                                      "spardl",
                                      "powersgd",
                                      ranks_by_tensor,
                                      "dgc",
                                      "gmc",
                                      "stc"};
  const Rank* rank = self;
  Results* results = rank->common;
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    const laconic_method_options options = options_of(names[i]);
    laconic_method* method = method_on(rank->transport, &options);
    for (int step = 0; step < 2; ++step) {
      gradient_of(rank->rank, step, (*results)[rank->rank][0]);
      CHECK(average(method, (*results)[rank->rank][0], (uint64_t)step).finite);
      pthread_barrier_wait(rank->barrier);
      CHECK(same_bytes((*results)[rank->rank][0], (*results)[0][0], COUNT * sizeof(float)));
      pthread_barrier_wait(rank->barrier);
    }
    laconic_method_free(method);
  }
  return NULL;
}

// ---- a rank that leaves ----

static void* average_without_rank_3(void* self) {
  Rank* rank = self;
  const laconic_method_options options = options_of(plain);
  const laconic_step step = {.struct_size = sizeof step};
  laconic_method* method = method_on(rank->transport, &options);
  float* gradient = calloc(COUNT, sizeof *gradient);
  if (rank->rank == 3) {
    laconic_method_free(method);
    laconic_transport_free(rank->transport);
    rank->transport = NULL;
  } else {
    CHECK_FAILS(laconic_average(method, gradient, COUNT, &step, NULL), LACONIC_TRANSPORT, "rank 3");
    CHECK(laconic_last_rank() == 3);
    laconic_method_free(method);
  }
  free(gradient);
  return NULL;
}

void test_average(void) {
  static Results results;
  run_on_hub(average_identity, &results);
  check_means(results);
  memset(results, 0, sizeof results);
  run_in_group(average_identity, &results);
  check_means(results);

  memset(results, 0, sizeof results);
  run_on_hub(average_dense, &results);
  check_all_equal(results);
  run_on_hub(average_with_feedback, &results);
  check_all_equal(results);
  run_by_post(average_with_feedback, &results);
  check_all_equal(results);
  run_in_group(average_with_feedback, &results);
  check_all_equal(results);
  run_in_group(average_nan, NULL);
  run_in_group(average_by_recipe, &results);
  run_in_group(average_without_rank_3, NULL);
  run_by_post(average_without_rank_3, NULL);
}
