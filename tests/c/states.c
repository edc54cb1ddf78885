// What methods remember: as bytes, by name, for another number of ranks, over another transport.
// And what ranks must have in common.
#include "hub.h"

enum { COUNT = 12 };

static const uint64_t shape[] = {2, 3};
static const laconic_tensor tensors[] = {{"v", 2, shape}, {"w", 2, shape}};

static const char* const feedback =
    "{\"name\": \"f\", \"op\": \"topk:0.2\", \"memory\": \"feedback\"}";

static laconic_method_options options_of(const char* recipe) {
  const laconic_method_options options = {.struct_size = sizeof options,
                                          .recipe = recipe,
                                          .tensors = tensors,
                                          .tensor_count = 2,
                                          .timeout_seconds = 3600};
  return options;
}

static laconic_transport* alone(void) {
  const laconic_callbacks callbacks = {.struct_size = sizeof callbacks, .size = 1};
  laconic_transport* transport = NULL;
  CHECK_OK(laconic_transport_from_callbacks(&callbacks, &transport));
  return transport;
}

static void train(laconic_method* method, int rank, int steps) {
  float gradient[COUNT];
  for (int i = 0; i < steps; ++i) {
    const laconic_step step = {.struct_size = sizeof step, .step = (uint64_t)i, .lr = 0.1f};
    fill(gradient, COUNT, (unsigned)(10 * i + rank));
    CHECK_OK(laconic_average(method, gradient, COUNT, &step, NULL));
  }
}

static void by_name(void) {
  const laconic_method_options options = options_of(feedback);
  laconic_transport* transport = alone();
  laconic_method* method = method_on(transport, &options);
  float v[6] = {0}, again[6];
  double norm = -1;
  train(method, 0, 2);
  CHECK_OK(laconic_state_get(method, "feedback/v", v, 6));
  CHECK(v[0] != 0 || v[1] != 0);
  v[0] = 3, v[1] = 4;
  CHECK_OK(laconic_state_set(method, "feedback/v", v, 6));
  CHECK_OK(laconic_state_get(method, "feedback/v", again, 6));
  CHECK(same_bytes(v, again, sizeof v));
  CHECK_OK(laconic_residual_norm(method, &norm));
  CHECK(norm >= 5);
  CHECK_FAILS(laconic_state_get(method, "feedback/u", v, 6), LACONIC_USAGE,
              "no state 'feedback/u'; known: feedback/v feedback/w");
  CHECK_FAILS(laconic_state_set(method, "feedback/u", v, 6), LACONIC_USAGE,
              "no state 'feedback/u'");
  CHECK_FAILS(laconic_state_get(method, "feedback/v", v, 5), LACONIC_USAGE, "has 6 entries, not 5");
  CHECK_FAILS(laconic_state_set(method, "feedback/v", v, 7), LACONIC_USAGE, "has 6 entries, not 7");
  CHECK_FAILS(laconic_state_get(NULL, "feedback/v", v, 6), LACONIC_USAGE, "'method' is");
  CHECK_FAILS(laconic_state_get(method, NULL, v, 6), LACONIC_USAGE, "'name' is");
  CHECK_FAILS(laconic_state_get(method, "feedback/v", NULL, 6), LACONIC_USAGE, "'values' is");
  CHECK_FAILS(laconic_state_set(NULL, "feedback/v", v, 6), LACONIC_USAGE, "'method' is");
  CHECK_FAILS(laconic_state_set(method, NULL, v, 6), LACONIC_USAGE, "'name' is");
  CHECK_FAILS(laconic_state_set(method, "feedback/v", NULL, 6), LACONIC_USAGE, "'values' is");
  laconic_method_free(method);
  laconic_transport_free(transport);
}

// A saved state is a frame whose sections have the tensors' names.
static void as_a_frame(void) {
  const laconic_method_options options = options_of(feedback);
  laconic_transport* transport = alone();
  laconic_method* method = method_on(transport, &options);
  laconic_frame* frame = NULL;
  laconic_section section = {.struct_size = sizeof section};
  float x[COUNT] = {1}, y[COUNT];
  float* parameters[] = {x, x + 6};
  float* loaded[] = {y, y + 6};
  size_t size = 0;
  unsigned char* bytes = saved(method, (const float* const*)parameters, &size);
  CHECK_OK(laconic_frame_read(bytes, size, 0, &frame));
  CHECK_OK(laconic_frame_section(frame, 0, &section));
  CHECK(strcmp(section.name, "common:parameters/v") == 0 && section.count == 6);
  CHECK_OK(laconic_frame_section(frame, 2, &section));
  CHECK(strcmp(section.name, "own:exchange:feedback/v") == 0);
  laconic_frame_free(frame);
  CHECK_OK(laconic_method_load(method, bytes, size, 0, loaded));
  CHECK(same_bytes(x, y, sizeof x));
  CHECK_OK(laconic_method_load(method, bytes, size, 0, NULL));  // the model is the host's
  CHECK_FAILS(laconic_method_load(method, bytes, size, 4, NULL), LACONIC_USAGE, "no flags 4");
  CHECK_FAILS(laconic_method_load(NULL, bytes, size, 0, NULL), LACONIC_USAGE, "'method' is");
  CHECK_FAILS(laconic_method_load(method, NULL, size, 0, NULL), LACONIC_USAGE, "'bytes' is");
  CHECK_FAILS(laconic_method_load(method, x, sizeof x, 0, NULL), LACONIC_DATA, "");
  CHECK_FAILS(laconic_method_save(NULL, NULL, NULL, 0, &size), LACONIC_USAGE, "'method' is");
  CHECK_FAILS(laconic_method_save(method, NULL, NULL, 0, NULL), LACONIC_USAGE, "'size' is");
  bytes[size / 2] ^= 1;
  CHECK_FAILS(laconic_method_load(method, bytes, size, 0, NULL), LACONIC_DATA, "damaged");
  free(bytes);
  bytes = saved(method, NULL, &size);
  CHECK_FAILS(laconic_method_load(method, bytes, size, 0, loaded), LACONIC_DATA,
              "no 'parameters/v'");
  free(bytes);
  laconic_method_free(method);
  laconic_transport_free(transport);
}

// A model that has grown and lost a tensor since.
static void of_another_model(void) {
  const laconic_tensor others[] = {{"u", 2, shape}, {"w", 2, shape}};
  laconic_method_options options = options_of(feedback);
  laconic_transport* transport = alone();
  laconic_method* old = method_on(transport, &options);
  options.tensors = others;
  laconic_method* method = method_on(transport, &options);
  float was[6], is[6];
  size_t size = 0;
  train(old, 0, 2);
  train(method, 1, 2);
  void* state = saved(old, NULL, &size);
  const int both = LACONIC_MISSING_IS_ZERO | LACONIC_UNKNOWN_IGNORED;
  CHECK_FAILS(laconic_method_load(method, state, size, 0, NULL), LACONIC_DATA, "no 'feedback/u'");
  CHECK_FAILS(laconic_method_load(method, state, size, LACONIC_UNKNOWN_IGNORED, NULL), LACONIC_DATA,
              "no 'feedback/u'");
  CHECK_FAILS(laconic_method_load(method, state, size, LACONIC_MISSING_IS_ZERO, NULL), LACONIC_DATA,
              "has 'feedback/v'");
  CHECK_OK(laconic_method_load(method, state, size, both, NULL));
  CHECK_OK(laconic_state_get(method, "feedback/u", is, 6));
  for (int i = 0; i < 6; ++i) CHECK(is[i] == 0);
  CHECK_OK(laconic_state_get(old, "feedback/w", was, 6));
  CHECK_OK(laconic_state_get(method, "feedback/w", is, 6));
  CHECK(same_bytes(was, is, sizeof was));
  free(state);
  laconic_method_free(method);
  laconic_method_free(old);
  laconic_transport_free(transport);

  // What a memory has only after its first step is not unknown before it.
  transport = alone();
  options = options_of("gmc");
  old = method_on(transport, &options);
  method = method_on(transport, &options);
  float x[COUNT] = {0}, gradient[COUNT] = {1};
  const float* const parameters[] = {x, x + 6};
  const laconic_step step = {.struct_size = sizeof step, .lr = 1, .parameters = parameters};
  CHECK_OK(laconic_average(old, gradient, COUNT, &step, NULL));
  state = saved(old, NULL, &size);
  CHECK_OK(laconic_method_load(method, state, size, both, NULL));
  CHECK_OK(laconic_state_get(method, "gmc.parameters/v", is, 6));
  free(state);
  laconic_method_free(method);
  laconic_method_free(old);
  laconic_transport_free(transport);
}

// ---- another number of ranks ----

typedef struct States {
  void* bytes[RANKS];
  size_t sizes[RANKS];
  float owed[RANKS][6];
} States;

static void* remember(void* self) {
  const Rank* rank = self;
  States* states = rank->common;
  const laconic_method_options options = options_of(feedback);
  laconic_method* method = method_on(rank->transport, &options);
  train(method, rank->rank, 3);
  states->bytes[rank->rank] = saved(method, NULL, &states->sizes[rank->rank]);
  CHECK_OK(laconic_state_get(method, "feedback/w", states->owed[rank->rank], 6));
  laconic_method_free(method);
  return NULL;
}

// One rank goes on with the debts of four.
static void redistribute(void) {
  States states;
  run_in_group(remember, &states);
  const void* const* from = (const void* const*)states.bytes;
  size_t size = 0;
  CHECK_OK(laconic_states_redistribute(from, states.sizes, RANKS, 1, 0, NULL, 0, &size));
  void* bytes = malloc(size);
  CHECK_FAILS(laconic_states_redistribute(from, states.sizes, RANKS, 1, 0, bytes, 3, &size),
              LACONIC_USAGE, "needed: ");
  CHECK_OK(laconic_states_redistribute(from, states.sizes, RANKS, 1, 0, bytes, size, &size));
  const laconic_method_options options = options_of(feedback);
  laconic_transport* transport = alone();
  laconic_method* method = method_on(transport, &options);
  float w[6];
  CHECK_OK(laconic_method_load(method, bytes, size, 0, NULL));
  CHECK_OK(laconic_state_get(method, "feedback/w", w, 6));
  for (int i = 0; i < 6; ++i) {
    double sum = 0;
    for (int rank = 0; rank < RANKS; ++rank) sum += states.owed[rank][i];
    CHECK(w[i] == (float)sum);
  }
  laconic_method_free(method);
  laconic_transport_free(transport);

  size_t n = 0;
  CHECK_FAILS(laconic_states_redistribute(from, states.sizes, 0, 1, 0, NULL, 0, &n), LACONIC_USAGE,
              "states of 0 ranks");
  CHECK_FAILS(laconic_states_redistribute(from, states.sizes, RANKS, 2, 2, NULL, 0, &n),
              LACONIC_USAGE, "rank 2 of 2");
  CHECK_FAILS(laconic_states_redistribute(NULL, states.sizes, RANKS, 1, 0, NULL, 0, &n),
              LACONIC_USAGE, "'states' is");
  CHECK_FAILS(laconic_states_redistribute(from, NULL, RANKS, 1, 0, NULL, 0, &n), LACONIC_USAGE,
              "'sizes' is");
  CHECK_FAILS(laconic_states_redistribute(from, states.sizes, RANKS, 1, 0, NULL, 0, NULL),
              LACONIC_USAGE, "'size' is");
  memset(states.bytes[1], 0, 8);
  CHECK_FAILS(laconic_states_redistribute(from, states.sizes, RANKS, 1, 0, NULL, 0, &n),
              LACONIC_DATA, "");
  free(bytes);
  for (int rank = 0; rank < RANKS; ++rank) free(states.bytes[rank]);
}

// ---- another transport ----

static void* move_over(void* self) {
  const Rank* rank = self;
  laconic_transport** others = rank->common;
  const laconic_method_options options = options_of(feedback);
  laconic_method* first = method_on(rank->transport, &options);
  laconic_method* second = method_on(rank->transport, &options);
  train(first, rank->rank, 2);
  train(second, rank->rank, 2);
  CHECK_OK(laconic_method_set_transport(second, others[rank->rank]));
  train(first, rank->rank, 2);
  train(second, rank->rank, 2);
  size_t a = 0, b = 0;
  void *one = saved(first, NULL, &a), *two = saved(second, NULL, &b);
  CHECK(a == b && same_bytes(one, two, a));
  CHECK_FAILS(laconic_method_set_transport(NULL, others[rank->rank]), LACONIC_USAGE, "'method' is");
  CHECK_FAILS(laconic_method_set_transport(first, NULL), LACONIC_USAGE, "'transport' is");
  free(one);
  free(two);
  laconic_method_free(second);
  laconic_method_free(first);
  return NULL;
}

static void change_transport(void) {
  laconic_thread_group* group = NULL;
  laconic_transport* others[RANKS];
  CHECK_OK(laconic_thread_group_create(RANKS, &group));
  for (int i = 0; i < RANKS; ++i) CHECK_OK(laconic_thread_group_transport(group, i, &others[i]));
  run_in_group(move_over, others);
  for (int i = 0; i < RANKS; ++i) laconic_transport_free(others[i]);
  laconic_thread_group_free(group);
}

// ---- ranks that differ ----

static void* disagree(void* self) {
  const Rank* rank = self;
  static const laconic_tensor swapped[] = {{"w", 2, shape}, {"v", 2, shape}};
  const int odd = rank->rank == 2;
  float x[COUNT] = {1, 2, 3};
  const float* const start[] = {x, x + 6};
  x[7] = odd ? 1 : 0;
  for (int what = 0; what < 5; ++what) {
    const char* const words[] = {"disagree on the model", "disagree on the checksum of the start",
                                 "disagree on the recipe's op", "disagree on the unit bytes",
                                 "disagree on the seed"};
    laconic_method_options options = options_of("natural");
    laconic_method* method = NULL;
    if (what == 0 && odd) options.tensors = swapped;
    if (what == 1) options.start = start;
    if (what == 2 && odd)
      options.recipe = "{\"name\": \"natural\", \"op\": \"half\", \"exchange\": \"auto\"}";
    if (what == 3 && odd) options.unit_bytes = 5;
    if (what == 4 && odd) options.seed = 5;
    CHECK_FAILS(laconic_method_create(rank->transport, &options, &method), LACONIC_USAGE,
                words[what]);
    CHECK(method == NULL && laconic_last_rank() == 2);
    CHECK(strstr(laconic_last_error(), "rank 2") != NULL);
  }
  return NULL;
}

// One rank is given what cannot be: the others do not wait for it, and all can try again.
static void* fail_alone(void* self) {
  const Rank* rank = self;
  laconic_method_options options = options_of(rank->rank == 1 ? "soup" : "natural");
  laconic_method* method = NULL;
  if (rank->rank == 1) {
    CHECK_FAILS(laconic_method_create(rank->transport, &options, &method), LACONIC_USAGE,
                "no recipe 'soup'");
  } else {
    CHECK_FAILS(laconic_method_create(rank->transport, &options, &method), LACONIC_TRANSPORT,
                "rank 1 cannot go on: no recipe 'soup'");
    CHECK(laconic_last_rank() == 1);
  }
  options.recipe = "natural";
  method = method_on(rank->transport, &options);
  train(method, rank->rank, 1);
  laconic_method_free(method);
  return NULL;
}

void test_states(void) {
  by_name();
  as_a_frame();
  of_another_model();
  redistribute();
  change_transport();
  run_in_group(disagree, NULL);
  run_in_group(fail_alone, NULL);
  run_on_hub(disagree, NULL);
}
