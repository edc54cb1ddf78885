// A rank leaves for good: the others go on without it, in the same process, over a transport that
// connects just them.
#include "hub.h"

enum { COUNT = 12, LOST = 2 };

static const uint64_t shape[] = {2, 3};
static const laconic_tensor tensors[] = {{"v", 2, shape}, {"w", 2, shape}};

// What all ranks share.
typedef struct Group {
  laconic_transport* others[RANKS];  // of those who stay, by their ranks before
  float owed[RANKS][COUNT], means[RANKS][COUNT];
} Group;

static laconic_method_options options_of(const char* recipe) {
  const laconic_method_options options = {.struct_size = sizeof options,
                                          .recipe = recipe,
                                          .tensors = tensors,
                                          .tensor_count = 2,
                                          .timeout_seconds = 3600};
  return options;
}

static laconic_status average(laconic_method* method, int rank, unsigned number, float* gradient) {
  const laconic_step step = {.struct_size = sizeof step, .step = number, .lr = 0.1f};
  for (unsigned i = 0; i < COUNT; ++i)
    gradient[i] = (float)((int)((i + 1) * (number + 3) * (unsigned)(rank + 5) % 41) - 20);
  return laconic_average(method, gradient, COUNT, &step, NULL);
}

static void leave(Rank* rank, laconic_method* method) {
  laconic_method_free(method);
  laconic_transport_free(rank->transport);
  rank->transport = NULL;
}

static void* lose_one(void* self) {
  Rank* rank = self;
  Group* group = rank->common;
  const laconic_method_options options = options_of(
      "{\"name\": \"f\", \"op\": \"topk:0.2\", \"memory\": \"feedback\", \"exchange\": "
      "\"server\", \"down_memory\": \"feedback\"}");
  laconic_method* method = method_on(rank->transport, &options);
  float gradient[COUNT], v[6];
  int outcome = -1;
  CHECK_OK(average(method, rank->rank, 0, gradient));
  pthread_barrier_wait(rank->barrier);
  if (rank->rank == LOST) {
    leave(rank, method);
    return NULL;
  }
  CHECK_FAILS(average(method, rank->rank, 1, gradient), LACONIC_TRANSPORT, "rank 2");
  CHECK(laconic_last_rank() == LOST);
  laconic_transport* among = group->others[rank->rank];
  CHECK_OK(laconic_state_get(method, "feedback/v", v, 6));
  CHECK_FAILS(laconic_method_regroup(NULL, among, NULL, &outcome), LACONIC_USAGE, "'method' is");
  CHECK_FAILS(laconic_method_regroup(method, NULL, NULL, &outcome), LACONIC_USAGE, "'among' is");
  CHECK_FAILS(laconic_method_regroup(method, among, NULL, NULL), LACONIC_USAGE, "'outcome' is");
  CHECK_OK(laconic_method_regroup(method, among, NULL, &outcome));
  CHECK(outcome == LACONIC_ROLLED_BACK);
  laconic_transport_free(rank->transport);  // nothing needs it any more
  rank->transport = NULL;
  CHECK_OK(laconic_state_get(method, "feedback/v", group->owed[rank->rank], 6));
  CHECK(same_bytes(v, group->owed[rank->rank], sizeof v));
  for (unsigned i = 1; i < 4; ++i) CHECK_OK(average(method, rank->rank, i, gradient));
  memcpy(group->means[rank->rank], gradient, sizeof gradient);
  laconic_method_free(method);
  return NULL;
}

// Rounds of local steps: each goes on from its own parameters, and all agree after the round.
static void* lose_one_locally(void* self) {
  Rank* rank = self;
  Group* group = rank->common;
  float x[COUNT] = {1, 2, 3}, g[COUNT];
  float* const parameters[] = {x, x + 6};
  float* const gradients[] = {g, g + 6};
  laconic_method_options options =
      options_of("{\"name\": \"l\", \"op\": \"topk:0.2\", \"memory\": \"feedback\", \"delay\": 2}");
  options.start = (const float* const*)parameters;
  laconic_method* method = method_on(rank->transport, &options);
  int outcome = -1, equal = 0;
  for (unsigned i = 0; i < 6; ++i) {
    const laconic_step step = {.struct_size = sizeof step, .step = i, .lr = 0.1f};
    fill(g, COUNT, 10 * i + (unsigned)rank->rank);
    CHECK_OK(laconic_before_update(method, parameters, gradients, &step, NULL));
    for (int k = 0; k < COUNT; ++k) x[k] -= 0.1f * g[k];
    if (i == 2) pthread_barrier_wait(rank->barrier);
    if (i == 2 && rank->rank == LOST) {
      leave(rank, method);
      return NULL;
    }
    const laconic_status status = laconic_after_update(method, parameters, &step, NULL);
    CHECK(status == (i == 3 ? LACONIC_TRANSPORT : LACONIC_OK));
    if (i != 3) continue;
    CHECK_FAILS(laconic_method_regroup(method, group->others[rank->rank], NULL, &outcome),
                LACONIC_USAGE, "'parameters' is");
    CHECK_OK(laconic_method_regroup(method, group->others[rank->rank], parameters, &outcome));
    CHECK_OK(laconic_after_update(method, parameters, &step, NULL));  // the round, again
  }
  CHECK_OK(laconic_replicas_equal(method, &equal));
  CHECK(equal);
  memcpy(group->means[rank->rank], x, sizeof x);
  laconic_method_free(method);
  return NULL;
}

static void* lose_a_neighbour(void* self) {
  const Rank* rank = self;
  Group* group = rank->common;
  float x[COUNT] = {0};
  float* const parameters[] = {x, x + 6};
  const laconic_method_options options = options_of("dpsgd");
  laconic_method* method = method_on(rank->transport, &options);
  int outcome = -1;
  CHECK_FAILS(laconic_method_regroup(method, group->others[0], parameters, &outcome), LACONIC_USAGE,
              "has no centre");
  laconic_method_free(method);
  return NULL;
}

static void run(void* (*work)(void* rank)) {
  Group group;
  laconic_thread_group* smaller = NULL;
  memset(&group, 0, sizeof group);
  CHECK_OK(laconic_thread_group_create(RANKS - 1, &smaller));
  for (int i = 0; i < RANKS; ++i)
    if (i != LOST)
      CHECK_OK(laconic_thread_group_transport(smaller, i - (i > LOST), &group.others[i]));
  run_in_group(work, &group);
  for (int i = 0; i < RANKS; ++i) {
    if (i != LOST) CHECK(same_bytes(group.means[i], group.means[0], sizeof group.means[0]));
    laconic_transport_free(group.others[i]);
  }
  laconic_thread_group_free(smaller);
}

void test_regroup(void) {
  run(lose_one);
  run(lose_one_locally);
  run(lose_a_neighbour);
}
