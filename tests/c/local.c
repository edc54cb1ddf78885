// Methods whose gradients stay with their rank: local steps and a mixer, around an optimiser of the
// host's.
#include "hub.h"

enum { A = 700, B = 3, COUNT = A + B };

static const uint64_t a_shape[] = {7, 100}, b_shape[] = {3};
static const laconic_tensor tensors[] = {{"a", 2, a_shape}, {"b", 1, b_shape}};

// A rank's model, gradient and momentum, per tensor and flat.
typedef struct Replica {
  float x[COUNT], g[COUNT], m[COUNT];
  float *parameters[2], *gradients[2], *momentum[2];
} Replica;

static Replica* replica_of(int rank) {
  static Replica replicas[RANKS];
  Replica* r = &replicas[rank];
  memset(r, 0, sizeof *r);
  for (int i = 0; i < 2; ++i) {
    r->parameters[i] = r->x + i * A;
    r->gradients[i] = r->g + i * A;
    r->momentum[i] = r->m + i * A;
  }
  fill(r->x, COUNT, 99);
  return r;
}

static laconic_method_options options_of(const char* recipe, const Replica* start) {
  const laconic_method_options options = {.struct_size = sizeof options,
                                          .recipe = recipe,
                                          .tensors = tensors,
                                          .tensor_count = 2,
                                          .start = (const float* const*)start->parameters,
                                          .seed = 3,
                                          .timeout_seconds = 3600};
  return options;
}

static const float rate = 0.125f;

// One step of plain descent with a gradient that rank and step decide.
static laconic_stats train(laconic_method* method, Replica* r, int rank, int number) {
  const laconic_step step = {
      .struct_size = sizeof step, .step = (uint64_t)number, .lr = rate, .momentum = r->momentum};
  laconic_stats before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};
  fill(r->g, COUNT, (unsigned)(40 * number + rank));
  CHECK_OK(laconic_before_update(method, r->parameters, r->gradients, &step, &before));
  CHECK(before.finite);
  for (size_t i = 0; i < COUNT; ++i) r->x[i] -= rate * r->g[i];
  CHECK_OK(laconic_after_update(method, r->parameters, &step, &after));
  return after;
}

static int is(laconic_status (*ask)(const laconic_method*, int*), const laconic_method* method) {
  int answer = -1;
  CHECK_OK(ask(method, &answer));
  return answer;
}

// After a round all have the mean of what each has done.
static void* take_local_steps(void* self) {
  const Rank* rank = self;
  Replica* r = replica_of(rank->rank);
  const laconic_method_options options =
      options_of("{\"name\": \"local\", \"delay\": 2, \"op\": \"identity\"}", r);
  laconic_method* method = method_on(rank->transport, &options);
  CHECK(!is(laconic_averages_gradients, method) && is(laconic_replicas_equal, method));
  CHECK(train(method, r, rank->rank, 0).traffic_bytes == 0);
  CHECK(!is(laconic_replicas_equal, method));
  CHECK(train(method, r, rank->rank, 1).traffic_bytes > 0);
  CHECK(is(laconic_replicas_equal, method) && !is(laconic_set_back, method));
  static float start[RANKS][COUNT], g[RANKS][COUNT], sum[RANKS][COUNT];
  const int me = rank->rank;
  fill(start[me], COUNT, 99);
  for (int number = 0; number < 2; ++number)
    for (int other = 0; other < RANKS; ++other) {
      fill(g[me], COUNT, (unsigned)(40 * number + other));
      for (size_t i = 0; i < COUNT; ++i) sum[me][i] += g[me][i] / RANKS;
    }
  for (size_t i = 0; i < COUNT; ++i)
    CHECK(fabsf(r->x[i] - (start[me][i] - rate * sum[me][i])) < 1e-4f);
  memset(sum[me], 0, sizeof sum[me]);

  // A round that is under way at the end.
  const laconic_step last = {.struct_size = sizeof last, .step = 3, .lr = rate};
  laconic_stats stats = {.struct_size = sizeof stats};
  train(method, r, me, 2);
  CHECK_OK(laconic_finish_round(method, r->parameters, &last, &stats));
  CHECK(stats.traffic_bytes > 0 && is(laconic_replicas_equal, method));
  CHECK_OK(laconic_finish_round(method, r->parameters, &last, &stats));
  CHECK(stats.traffic_bytes == 0);

  // A model that has run away: all are set back.
  memcpy(start[me], r->x, sizeof r->x);
  train(method, r, me, 4);
  if (me == 1) r->x[5] = NAN;
  const laconic_step fifth = {.struct_size = sizeof fifth, .step = 5, .lr = rate};
  CHECK_OK(laconic_after_update(method, r->parameters, &fifth, &stats));
  CHECK(!stats.finite && is(laconic_set_back, method));
  CHECK(same_bytes(r->x, start[me], sizeof r->x));
  laconic_method_free(method);
  return NULL;
}

// Momentum is masked where something was sent.
static void* mask_momentum(void* self) {
  const Rank* rank = self;
  Replica* r = replica_of(rank->rank);
  const laconic_method_options options = options_of(
      "{\"name\": \"sbc\", \"delay\": 2, \"op\": \"topk:0.1\","
      " \"memory\": \"feedback:masking=on\"}",
      r);
  laconic_method* method = method_on(rank->transport, &options);
  for (size_t i = 0; i < COUNT; ++i) r->m[i] = 1;
  train(method, r, rank->rank, 0);
  train(method, r, rank->rank, 1);
  size_t masked = 0;
  for (size_t i = 0; i < COUNT; ++i) masked += r->m[i] == 0;
  CHECK(masked > 0 && masked < COUNT / 5);
  laconic_method_free(method);
  return NULL;
}

// Saved in the middle of a round and loaded by another; changed over to other transports likewise.
static void* go_on(void* self) {
  const Rank* rank = self;
  laconic_transport** others = rank->common;
  static Replica copies[RANKS];
  const char* const recipes[] = {"diloco", "choco-topk"};
  for (int i = 0; i < 2; ++i) {
    Replica *r = replica_of(rank->rank), *copy = &copies[rank->rank];
    const char* json =
        "{\"name\": \"d\", \"delay\": 4, \"outer\": \"nesterov:0.9,0.5\", \"op\": \"topk:0.2\","
        " \"memory\": \"feedback\"}";
    const laconic_method_options options = options_of(i ? recipes[i] : json, r);
    laconic_method* method = method_on(rank->transport, &options);
    laconic_method* second = method_on(rank->transport, &options);
    for (int number = 0; number < 6; ++number) train(method, r, rank->rank, number);
    size_t size = 0;
    void* state = saved(method, (const float* const*)r->parameters, &size);
    *copy = *r;
    for (int t = 0; t < 2; ++t) copy->parameters[t] = copy->x + t * A;
    for (int t = 0; t < 2; ++t) copy->gradients[t] = copy->g + t * A;
    memset(copy->x, 0, sizeof copy->x);
    CHECK_OK(laconic_method_load(second, state, size, 0, copy->parameters));
    CHECK(same_bytes(copy->x, r->x, sizeof r->x));
    CHECK_OK(laconic_method_set_transport(second, others[rank->rank]));
    for (int number = 6; number < 9; ++number) {
      train(method, r, rank->rank, number);
      train(second, copy, rank->rank, number);
      CHECK(same_bytes(copy->x, r->x, sizeof r->x));
    }
    CHECK_FAILS(laconic_method_save(method, NULL, NULL, 0, &size), LACONIC_USAGE,
                "'parameters' is NULL");
    free(state);
    laconic_method_free(second);
    laconic_method_free(method);
  }
  return NULL;
}

// What one rank gains another loses.
static void* mix(void* self) {
  const Rank* rank = self;
  float(*models)[COUNT] = rank->common;
  Replica* r = replica_of(rank->rank);
  laconic_method_options options = options_of("{\"name\": \"mix\", \"mixer\": \"dpsgd\"}", r);
  options.start = NULL;  // they start apart
  laconic_method* method = method_on(rank->transport, &options);
  CHECK(!is(laconic_averages_gradients, method) && !is(laconic_replicas_equal, method));
  for (size_t i = 0; i < COUNT; ++i) r->x[i] = (float)rank->rank;
  const laconic_step step = {.struct_size = sizeof step, .lr = rate};
  laconic_stats stats = {.struct_size = sizeof stats};
  CHECK_OK(laconic_before_update(method, r->parameters, r->gradients, &step, &stats));
  CHECK(stats.finite && stats.traffic_bytes > 0);
  CHECK_OK(laconic_after_update(method, r->parameters, &step, NULL));
  memcpy(models[rank->rank], r->x, sizeof r->x);
  pthread_barrier_wait(rank->barrier);
  for (size_t i = 0; i < COUNT; ++i)
    CHECK(fabsf(models[0][i] + models[1][i] + models[2][i] + models[3][i] - 6) < 1e-5f);
  CHECK(fabsf(models[0][0] - 4.0f / 3) < 1e-5f);  // of 0, 1 and 3
  r->g[3] = INFINITY;
  CHECK_OK(laconic_before_update(method, r->parameters, r->gradients, &step, &stats));
  CHECK(!stats.finite);
  laconic_method_free(method);
  return NULL;
}

// Each kind of method says what to call instead.
static void* wrong_verbs(void* self) {
  const Rank* rank = self;
  Replica* r = replica_of(rank->rank);
  const laconic_step step = {.struct_size = sizeof step};
  const laconic_step scaled = {.struct_size = sizeof scaled, .scale = 2};
  laconic_method_options options = options_of("dpsgd", r);
  laconic_method* mixer = method_on(rank->transport, &options);
  options.recipe = "natural";
  laconic_method* method = method_on(rank->transport, &options);
  size_t which = 0;
  void* data = r->g;
  int n = 0;
  const char* local = "laconic_before_update and laconic_after_update, not laconic_";
  CHECK_FAILS(laconic_begin(mixer, &step), LACONIC_USAGE, local);
  CHECK_FAILS(laconic_submit(mixer, &which, &data, NULL, 1, 0, NULL), LACONIC_USAGE, local);
  CHECK_FAILS(laconic_poll(mixer, 0, &n), LACONIC_USAGE, local);
  CHECK_FAILS(laconic_wait(mixer, 0, 0, &n), LACONIC_USAGE, local);
  CHECK_FAILS(laconic_finish(mixer, NULL), LACONIC_USAGE, local);
  CHECK_FAILS(laconic_commit(mixer), LACONIC_USAGE, local);
  CHECK_FAILS(laconic_rollback(mixer), LACONIC_USAGE, local);
  CHECK_FAILS(laconic_abort(mixer, "x"), LACONIC_USAGE, local);
  CHECK_FAILS(laconic_outcome(mixer, &n), LACONIC_USAGE, local);
  CHECK_FAILS(laconic_average(mixer, r->g, COUNT, &step, NULL), LACONIC_USAGE, local);
  CHECK_FAILS(laconic_before_update(mixer, r->parameters, r->gradients, &scaled, NULL),
              LACONIC_USAGE, "'step->scale' is for averaged gradients");
  const char* parts = "or laconic_average, not laconic_";
  CHECK_FAILS(laconic_before_update(method, r->parameters, r->gradients, &step, NULL),
              LACONIC_USAGE, parts);
  CHECK_FAILS(laconic_after_update(method, r->parameters, &step, NULL), LACONIC_USAGE, parts);
  CHECK_FAILS(laconic_finish_round(method, r->parameters, &step, NULL), LACONIC_USAGE, parts);
  float* missing[2] = {r->x, NULL};
  CHECK_FAILS(laconic_before_update(mixer, NULL, r->gradients, &step, NULL), LACONIC_USAGE,
              "'parameters' is");
  CHECK_FAILS(laconic_before_update(mixer, r->parameters, missing, &step, NULL), LACONIC_USAGE,
              "'gradients[1]' is");
  CHECK_FAILS(laconic_after_update(mixer, missing, &step, NULL), LACONIC_USAGE,
              "'parameters[1]' is");
  CHECK_FAILS(laconic_after_update(mixer, r->parameters, NULL, NULL), LACONIC_USAGE, "'step' is");
  laconic_method_free(method);
  laconic_method_free(mixer);
  return NULL;
}

void test_local(void) {
  static float models[RANKS][COUNT];
  laconic_thread_group* group = NULL;
  laconic_transport* others[RANKS];
  run_in_group(take_local_steps, NULL);
  run_on_hub(take_local_steps, NULL);
  run_in_group(mask_momentum, NULL);
  run_in_group(mix, models);
  run_in_group(wrong_verbs, NULL);
  CHECK_OK(laconic_thread_group_create(RANKS, &group));
  for (int i = 0; i < RANKS; ++i) CHECK_OK(laconic_thread_group_transport(group, i, &others[i]));
  run_in_group(go_on, others);
  for (int i = 0; i < RANKS; ++i) laconic_transport_free(others[i]);
  laconic_thread_group_free(group);
}
