// Four ranks average their gradients over a transport written in C, and over the library's thread
// group.
#include "hub.h"

enum { COUNT = 5003, STEPS = 6 };

static const uint64_t conv_shape[] = {10, 500}, bias_shape[] = {3};
static const laconic_tensor tensors[] = {{"conv", 2, conv_shape}, {"bias", 1, bias_shape}};
static const char* const rules[] = {"name=*ias,op=identity"};

typedef float Results[RANKS][STEPS][COUNT];

static laconic_options options_of(const char* op) {
  const laconic_options options = {
      .struct_size = sizeof options,
      .op = op,
      .tensors = tensors,
      .tensor_count = 2,
      .seed = 11,
      .timeout_seconds = 30,
  };
  return options;
}

static laconic_options feedback_options(const char* layout) {
  laconic_options options = options_of("natural+entropy");
  options.memory = "feedback";
  options.layout = layout;
  options.rules = rules;
  options.rule_count = 1;
  options.threads = 2;
  return options;
}

static laconic_aggregator* open_with(const laconic_transport* transport,
                                     const laconic_options* options) {
  laconic_aggregator* aggregator = NULL;
  CHECK_OK(laconic_aggregator_create(transport, options, &aggregator));
  return aggregator;
}

static laconic_stats average(laconic_aggregator* aggregator, float* gradient, uint64_t step) {
  const laconic_step info = {
      .struct_size = sizeof info, .step = step, .lr = 0.1f, .parameters = gradient};
  laconic_stats stats = {.struct_size = sizeof stats};
  CHECK_OK(laconic_average(aggregator, gradient, COUNT, &info, &stats));
  CHECK(stats.dense_bytes == COUNT * sizeof(float));
  CHECK(stats.compress_seconds >= 0 && stats.exchange_seconds > 0 && stats.decompress_seconds >= 0);
  return stats;
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
  const laconic_options options = options_of("identity");
  laconic_aggregator* aggregator = open_with(&rank->transport, &options);
  for (int step = 0; step < STEPS; ++step) {
    float* gradient = (*results)[rank->transport.rank][step];
    gradient_of(rank->transport.rank, step, gradient);
    const laconic_stats stats = average(aggregator, gradient, (uint64_t)step);
    CHECK(stats.finite && stats.residual_norm == 0);
    CHECK(stats.payload_bytes == stats.dense_bytes && stats.wire_bytes > stats.payload_bytes);
    CHECK(stats.traffic_bytes >= (RANKS - 1) * stats.wire_bytes);
  }
  laconic_aggregator_free(aggregator);
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
  laconic_options options = options_of("identity");
  options.exchange = "dense";
  for (int own = 0; own < 2; ++own) {
    rank->transport.all_reduce_float = own ? hub_all_reduce : NULL;
    laconic_aggregator* aggregator = open_with(&rank->transport, &options);
    gradient_of(rank->transport.rank, 0, (*results)[rank->transport.rank][own]);
    const laconic_stats stats = average(aggregator, (*results)[rank->transport.rank][own], 0);
    CHECK(stats.traffic_bytes < 2 * stats.dense_bytes);
    laconic_aggregator_free(aggregator);
  }
  return NULL;
}

// ---- feedback: saved in the middle, continued by another aggregator that cuts the model otherwise
// ----

static void* save(const laconic_aggregator* aggregator, size_t* size) {
  CHECK_OK(laconic_aggregator_save(aggregator, NULL, 0, size));
  void* bytes = malloc(*size);
  CHECK_FAILS(laconic_aggregator_save(aggregator, bytes, *size - 1, size), LACONIC_USAGE,
              "needed: ");
  CHECK_OK(laconic_aggregator_save(aggregator, bytes, *size, size));
  return bytes;
}

static void* average_with_feedback(void* self) {
  const Rank* rank = self;
  Results* results = rank->common;
  const int me = rank->transport.rank;
  const laconic_options options = feedback_options("tensor"),
                        other = feedback_options("split:1000");
  laconic_aggregator* first = open_with(&rank->transport, &options);
  laconic_aggregator* second = open_with(&rank->transport, &other);
  static float unused[RANKS][COUNT];
  void* state = NULL;
  size_t size = 0;
  for (int step = 0; step < STEPS; ++step) {
    if (step == STEPS / 2) state = save(first, &size);
    gradient_of(me, step, (*results)[me][step]);
    CHECK(average(first, (*results)[me][step], (uint64_t)step).residual_norm > 0);
  }
  gradient_of(me, 0, unused[me]);
  average(second, unused[me], 0);  // what it remembers of this is replaced
  CHECK_OK(laconic_aggregator_load(second, state, size));
  for (int step = STEPS / 2; step < STEPS; ++step) {
    gradient_of(me, step, unused[me]);
    average(second, unused[me], (uint64_t)step);
    CHECK(same_bytes(unused[me], (*results)[me][step], sizeof unused[me]));
  }
  size_t a = 0, b = 0;
  void *one = save(first, &a), *two = save(second, &b);
  CHECK(a == b && same_bytes(one, two, a));
  free(one);
  free(two);
  free(state);
  laconic_aggregator_free(second);
  laconic_aggregator_free(first);
  return NULL;
}

// ---- NaN on one rank: all ranks know, nobody remembers ----

static void* average_nan(void* self) {
  const Rank* rank = self;
  const int me = rank->transport.rank;
  static float gradients[RANKS][COUNT];
  const laconic_options options = feedback_options("whole");
  laconic_aggregator* aggregator = open_with(&rank->transport, &options);
  gradient_of(me, 0, gradients[me]);
  average(aggregator, gradients[me], 0);
  size_t before_size = 0, after_size = 0;
  void* before = save(aggregator, &before_size);
  if (me == 2) gradients[me][7] = NAN;
  const laconic_stats stats = average(aggregator, gradients[me], 1);
  CHECK(!stats.finite && isnan(gradients[me][7]));
  void* after = save(aggregator, &after_size);
  CHECK(before_size == after_size && same_bytes(before, after, after_size));
  free(after);
  free(before);
  laconic_aggregator_free(aggregator);
  return NULL;
}

// ---- the library's own threads ----

typedef struct Member {
  laconic_thread_group* group;
  Results* results;
  int rank;
} Member;

static void* average_in_group(void* self) {
  const Member* member = self;
  Rank rank = {.transport = {.struct_size = sizeof rank.transport}, .common = member->results};
  CHECK_OK(laconic_thread_group_transport(member->group, member->rank, &rank.transport));
  CHECK(rank.transport.rank == member->rank && rank.transport.size == RANKS);
  average_identity(&rank);

  // Rank 3 leaves; the others are told at once and their gradient is as it was.
  if (member->rank == 3) {
    CHECK_OK(laconic_thread_group_leave(member->group, 3));
    CHECK_FAILS(laconic_thread_group_leave(member->group, 3), LACONIC_USAGE, "has left its group");
    return NULL;
  }
  const laconic_options options = options_of("identity");
  laconic_aggregator* aggregator = open_with(&rank.transport, &options);
  const laconic_step step = {.struct_size = sizeof step};
  float* gradient = calloc(COUNT, sizeof *gradient);
  gradient[COUNT - 1] = 5;
  CHECK_FAILS(laconic_average(aggregator, gradient, COUNT, &step, NULL), LACONIC_TRANSPORT,
              "(all_gather of frames)");
  CHECK(gradient[COUNT - 1] == 5);
  free(gradient);
  laconic_aggregator_free(aggregator);
  CHECK_OK(laconic_thread_group_leave(member->group, member->rank));
  return NULL;
}

static void run_group(Results* results) {
  laconic_thread_group* group = NULL;
  Member members[RANKS];
  pthread_t threads[RANKS];
  CHECK_OK(laconic_thread_group_create(RANKS, &group));
  for (int i = 0; i < RANKS; ++i) {
    members[i] = (Member){group, results, i};
    pthread_create(&threads[i], NULL, average_in_group, &members[i]);
  }
  for (int i = 0; i < RANKS; ++i) pthread_join(threads[i], NULL);
  laconic_thread_group_free(group);
}

void test_average(void) {
  static Results results;
  run_ranks(average_identity, &results);
  check_means(results);
  memset(results, 0, sizeof results);
  run_group(&results);
  check_means(results);

  memset(results, 0, sizeof results);
  run_ranks(average_dense, &results);
  check_all_equal(results);
  run_ranks(average_with_feedback, &results);
  check_all_equal(results);
  run_ranks(average_nan, NULL);
}
