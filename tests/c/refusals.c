// What methods and transports refuse: options, structs, NULL, callbacks that fail, peers that send
// nonsense.
#include "check.h"

static const uint64_t shape[] = {2, 2};
static const laconic_tensor tensors[] = {{"w", 2, shape}};

static laconic_method_options options_of(void) {
  const laconic_method_options options = {
      .struct_size = sizeof options, .recipe = "natural", .tensors = tensors, .tensor_count = 1};
  return options;
}

static laconic_callbacks alone(void) {
  const laconic_callbacks callbacks = {.struct_size = sizeof callbacks, .size = 1};
  return callbacks;
}

static laconic_transport* transport_of(const laconic_callbacks* callbacks) {
  laconic_transport* transport = NULL;
  CHECK_OK(laconic_transport_from_callbacks(callbacks, &transport));
  return transport;
}

static void refuse(const laconic_method_options* options, const char* words) {
  const laconic_callbacks callbacks = alone();
  laconic_transport* transport = transport_of(&callbacks);
  laconic_method* method = (laconic_method*)&callbacks;
  CHECK_FAILS(laconic_method_create(transport, options, &method), LACONIC_USAGE, words);
  CHECK(method == NULL && laconic_last_rank() == -1);
  laconic_transport_free(transport);
}

static void wrong_options(void) {
  laconic_method_options o = options_of();
  o.guard = "perhaps", refuse(&o, "no guard 'perhaps'; allowed: on, off, report or replay=FILE");
  o.guard = NULL;
  o.recipe = NULL, refuse(&o, "'options->recipe' is NULL");
  o.recipe = "soup", refuse(&o, "no recipe 'soup'");
  o.recipe = "{\"name\": \"x\", \"exchange\": \"shout\"}", refuse(&o, "no exchange 'shout'");
  o.recipe = "{\"name\": \"x\", \"op\": \"naturall\"}", refuse(&o, "no operator 'naturall'");
  o.recipe = "{\"name\": \"x\", \"memory\": \"elephant\"}", refuse(&o, "no memory 'elephant'");
  o.recipe = "{\"name\": \"x\", \"layout\": \"round\"}", refuse(&o, "no layout 'round'");
  o.recipe = "{\"name\": \"x\", \"rules\": [\"max=3\"]}", refuse(&o, "must end in op=SPEC");
  o.recipe = "{\"name\": \"x\", \"exchange\": \"powersgd\", \"rules\": [\"rank=0\"]}";
  refuse(&o, "'rank=0' is not allowed");
  o.recipe = "{\"name\": \"x\", \"exchange\": \"powersgd\", \"rules\": [\"rank=3\"]}";
  refuse(&o, "rank 3 for tensor 'w', a matrix of 2 x 2; allowed: 1 to 2");
  o.recipe = "{\"name\": \"x\", \"rules\": [\"rank=2\"]}";
  refuse(&o, "exchange 'gather' has no rank by tensor; allowed with one: powersgd");
  o.recipe = "{\"name\": \"x\", \"delay\": 3}",
  refuse(&o, "starts from 0 parameters of a model of 4");
  o = options_of(), o.tensors = NULL, refuse(&o, "'options->tensors' is NULL");
  o = options_of(), o.tensor_count = 0, refuse(&o, "'options->tensors' is empty");
  o = options_of(), o.threads = 5000, refuse(&o, "5000 threads");
  o = options_of(), o.timeout_seconds = -1, refuse(&o, "time-out of -1");
  o = options_of(), o.timeout_seconds = NAN, refuse(&o, "time-out of ");
  o = options_of(), o.timeout_seconds = INFINITY, refuse(&o, "time-out of inf");
  o = options_of(), o.timeout_seconds = 1e9, refuse(&o, "time-out of 1000000000");
  o = options_of(), o.engine = 2, refuse(&o, "no engine 2; known: 0 and 1");
  const float* const nothing[] = {NULL};
  o = options_of(), o.start = nothing, refuse(&o, "'options->start[0]' is NULL");
  o = options_of(), o.struct_size = 3, refuse(&o, "struct_size of 'options' is 3");

  const uint64_t huge[] = {UINT64_MAX, UINT64_MAX}, half[] = {(uint64_t)1 << 47};
  laconic_tensor t[3] = {{"w", 2, shape}, {"v", 2, huge}, {"u", 1, half}};
  o = options_of(), o.tensors = t, o.tensor_count = 2;
  refuse(&o, "'options->tensors[1].shape' has more than 2^48");
  t[1] = t[2], t[1].name = "v", o.tensor_count = 3, refuse(&o, "up to 2^48");
  t[1].name = NULL, refuse(&o, "'options->tensors[1].name' is NULL");
  t[1].name = "v", t[1].shape = NULL, refuse(&o, "'options->tensors[1].shape' is NULL");
  t[1].shape = shape, t[1].ndim = 65, refuse(&o, "65 dimensions");
  t[1] = t[0], refuse(&o, "'options->tensors[1]' has the name 'w' of one before it");
}

static int unused_exchange(void* self, const laconic_send* sends, size_t send_count,
                           const laconic_receive* receives, size_t receive_count,
                           double timeout_seconds, const char* operation) {
  (void)self, (void)sends, (void)send_count, (void)receives, (void)receive_count;
  (void)timeout_seconds, (void)operation;
  return 0;
}

static void wrong_transports(void) {
  laconic_callbacks c = alone();
  laconic_transport* t = NULL;
  c.size = 0;
  CHECK_FAILS(laconic_transport_from_callbacks(&c, &t), LACONIC_USAGE, "rank 0 of 0");
  c.size = 2;
  CHECK_FAILS(laconic_transport_from_callbacks(&c, &t), LACONIC_USAGE, "'exchange'");
  c.exchange = unused_exchange;
  c.rank = 2;
  CHECK_FAILS(laconic_transport_from_callbacks(&c, &t), LACONIC_USAGE, "rank 2 of 2");
  c.struct_size = 0;
  CHECK_FAILS(laconic_transport_from_callbacks(&c, &t), LACONIC_USAGE,
              "struct_size of 'callbacks' is 0");
  CHECK_FAILS(laconic_transport_from_callbacks(NULL, &t), LACONIC_USAGE, "'callbacks' is");
  c = alone();
  CHECK_FAILS(laconic_transport_from_callbacks(&c, NULL), LACONIC_USAGE, "'transport' is");
  CHECK(t == NULL);
  CHECK_FAILS(laconic_mpi_transport(0, 0, NULL), LACONIC_USAGE, "'transport' is");
  CHECK_FAILS(laconic_mpi_transport(0, -1, &t), LACONIC_USAGE, "time-out of -1");
  // Without MPI in the build, or with one that nobody has started.
  CHECK_FAILS(laconic_mpi_transport(0, 0, &t), LACONIC_USAGE, "MPI");
  CHECK(t == NULL);
  laconic_transport_free(NULL);
}

static void wrong_groups(void) {
  laconic_thread_group* group = NULL;
  laconic_transport *t = NULL, *again = NULL;
  CHECK_FAILS(laconic_thread_group_create(2, NULL), LACONIC_USAGE, "'group' is");
  CHECK_FAILS(laconic_thread_group_create(0, &group), LACONIC_USAGE, "0 ranks");
  CHECK_FAILS(laconic_thread_group_transport(NULL, 0, &t), LACONIC_USAGE, "'group' is");
  CHECK_OK(laconic_thread_group_create(2, &group));
  CHECK_FAILS(laconic_thread_group_transport(group, 0, NULL), LACONIC_USAGE, "'transport' is");
  CHECK_FAILS(laconic_thread_group_transport(group, 2, &t), LACONIC_USAGE, "rank 2 of 2");
  CHECK_FAILS(laconic_thread_group_transport(group, -1, &t), LACONIC_USAGE, "rank -1 of 2");
  CHECK_OK(laconic_thread_group_transport(group, 0, &t));
  CHECK_FAILS(laconic_thread_group_transport(group, 0, &again), LACONIC_USAGE, "allowed: once");

  // The other rank was never asked for: it has left with the group.
  laconic_thread_group_free(group);
  laconic_thread_group_free(NULL);
  const laconic_method_options options = options_of();
  laconic_method* method = NULL;
  CHECK_FAILS(laconic_method_create(t, &options, &method), LACONIC_TRANSPORT, "rank 1");
  CHECK(laconic_last_rank() == 1);
  laconic_transport_free(t);
}

// Structs of programs compiled against an older or a newer header.
static void ages(void) {
  struct {
    laconic_step known;
    uint64_t later;
  } newer = {.known = {.struct_size = sizeof newer}};
  struct {
    laconic_stats known;
    uint64_t later;
  } cost = {.known = {.struct_size = sizeof cost}, .later = 9};
  const laconic_callbacks callbacks = alone();
  laconic_transport* transport = transport_of(&callbacks);
  laconic_method_options options = options_of();
  float gradient[4] = {1, 2, 3, 4};
  options.recipe = "{\"name\": \"x\", \"op\": \"natural:nearest\"}";
  laconic_method* method = method_on(transport, &options);
  CHECK_OK(laconic_average(method, gradient, 4, &newer.known, &cost.known));
  CHECK(cost.later == 0 && cost.known.struct_size == sizeof cost && cost.known.dense_bytes == 16);
  CHECK(cost.known.traffic_bytes == 0 && gradient[2] != 3 && gradient[3] == 4);
  newer.later = 1;
  CHECK_FAILS(laconic_average(method, gradient, 4, &newer.known, NULL), LACONIC_USAGE,
              "'step' uses fields");

  laconic_stats older = {.struct_size = offsetof(laconic_stats, traffic_bytes), .dense_bytes = 77};
  const laconic_step step = {.struct_size = sizeof step};
  CHECK_OK(laconic_average(method, gradient, 4, &step, &older));
  CHECK(older.payload_bytes == 5 && older.dense_bytes == 77);
  older.struct_size = 1 << 20;
  gradient[2] = 3;
  CHECK_FAILS(laconic_average(method, gradient, 4, &step, &older), LACONIC_USAGE,
              "struct_size of 'stats' is 1048576");
  CHECK(gradient[2] == 3);  // refused before the step, not after
  CHECK_OK(laconic_begin(method, &step));
  CHECK_FAILS(laconic_finish(method, &older), LACONIC_USAGE, "struct_size of 'stats' is 1048576");
  CHECK_OK(laconic_finish(method, NULL));
  laconic_method_free(method);
  laconic_transport_free(transport);
}

static void null_arguments(void) {
  const laconic_method_options options = options_of();
  const laconic_step step = {.struct_size = sizeof step};
  const laconic_callbacks callbacks = alone();
  laconic_transport* transport = transport_of(&callbacks);
  laconic_method* m = NULL;
  float g[4] = {0};
  size_t which = 0;
  void* data = g;
  int n = 0;
  double norm = 0;
  CHECK_FAILS(laconic_method_create(NULL, &options, &m), LACONIC_USAGE, "'transport' is");
  CHECK_FAILS(laconic_method_create(transport, NULL, &m), LACONIC_USAGE, "'options' is");
  CHECK_FAILS(laconic_method_create(transport, &options, NULL), LACONIC_USAGE, "'method' is");
  const char* words = "'method' is";
  CHECK_FAILS(laconic_average(m, g, 4, &step, NULL), LACONIC_USAGE, words);
  CHECK_FAILS(laconic_begin(m, &step), LACONIC_USAGE, words);
  CHECK_FAILS(laconic_submit(m, &which, &data, NULL, 1, 0, NULL), LACONIC_USAGE, words);
  CHECK_FAILS(laconic_poll(m, 0, &n), LACONIC_USAGE, words);
  CHECK_FAILS(laconic_wait(m, 0, 0, &n), LACONIC_USAGE, words);
  CHECK_FAILS(laconic_finish(m, NULL), LACONIC_USAGE, words);
  CHECK_FAILS(laconic_commit(m), LACONIC_USAGE, words);
  CHECK_FAILS(laconic_rollback(m), LACONIC_USAGE, words);
  CHECK_FAILS(laconic_abort(m, "x"), LACONIC_USAGE, words);
  CHECK_FAILS(laconic_outcome(m, &n), LACONIC_USAGE, words);
  CHECK_FAILS(laconic_before_update(m, NULL, NULL, &step, NULL), LACONIC_USAGE, words);
  CHECK_FAILS(laconic_after_update(m, NULL, &step, NULL), LACONIC_USAGE, words);
  CHECK_FAILS(laconic_finish_round(m, NULL, &step, NULL), LACONIC_USAGE, words);
  CHECK_FAILS(laconic_averages_gradients(m, &n), LACONIC_USAGE, words);
  CHECK_FAILS(laconic_replicas_equal(m, &n), LACONIC_USAGE, words);
  CHECK_FAILS(laconic_set_back(m, &n), LACONIC_USAGE, words);
  CHECK_FAILS(laconic_residual_norm(m, &norm), LACONIC_USAGE, words);
  m = method_on(transport, &options);
  CHECK_FAILS(laconic_average(m, NULL, 4, &step, NULL), LACONIC_USAGE, "'gradient' is");
  CHECK_FAILS(laconic_average(m, g, 4, NULL, NULL), LACONIC_USAGE, "'step' is");
  CHECK_FAILS(laconic_average(m, g, 3, &step, NULL), LACONIC_USAGE, "3 entries for a model of 4");
  CHECK_FAILS(laconic_begin(m, NULL), LACONIC_USAGE, "'step' is");
  CHECK_FAILS(laconic_abort(m, NULL), LACONIC_USAGE, "'why' is");
  CHECK_FAILS(laconic_outcome(m, NULL), LACONIC_USAGE, "'outcome' is");
  CHECK_FAILS(laconic_averages_gradients(m, NULL), LACONIC_USAGE, "'averages' is");
  CHECK_FAILS(laconic_replicas_equal(m, NULL), LACONIC_USAGE, "'equal' is");
  CHECK_FAILS(laconic_set_back(m, NULL), LACONIC_USAGE, "'set_back' is");
  CHECK_FAILS(laconic_residual_norm(m, NULL), LACONIC_USAGE, "'norm' is");
  CHECK_OK(laconic_averages_gradients(m, &n));
  CHECK(n == 1);
  CHECK_OK(laconic_begin(m, &step));
  CHECK_FAILS(laconic_submit(m, NULL, &data, NULL, 1, 0, NULL), LACONIC_USAGE, "'tensors' is");
  CHECK_FAILS(laconic_submit(m, &which, NULL, NULL, 1, 0, NULL), LACONIC_USAGE, "'data' is");
  CHECK_OK(laconic_submit(m, &which, &data, NULL, 1, 0, NULL));
  CHECK_FAILS(laconic_poll(m, 0, NULL), LACONIC_USAGE, "'done' is");
  CHECK_FAILS(laconic_wait(m, 0, 0, NULL), LACONIC_USAGE, "'done' is");
  CHECK_OK(laconic_finish(m, NULL));
  laconic_method_free(m);
  laconic_method_free(NULL);
  laconic_transport_free(transport);
}

static void wrong_steps(void) {
  const laconic_method_options options = options_of();
  const laconic_callbacks callbacks = alone();
  laconic_transport* transport = transport_of(&callbacks);
  laconic_method* method = method_on(transport, &options);
  float g[4] = {0};
  float* arrays[] = {g};
  const float* const nothing[] = {NULL};
  laconic_step s = {.struct_size = sizeof s, .scale = -1};
  CHECK_FAILS(laconic_average(method, g, 4, &s, NULL), LACONIC_USAGE, "'step->scale' is -1");
  s.scale = NAN;
  CHECK_FAILS(laconic_begin(method, &s), LACONIC_USAGE, "'step->scale' is ");
  s.scale = 0, s.momentum = arrays;
  CHECK_FAILS(laconic_begin(method, &s), LACONIC_USAGE, "'step->momentum' is a rank's own");
  s.momentum = NULL, s.parameters = nothing;
  CHECK_FAILS(laconic_begin(method, &s), LACONIC_USAGE, "'step->parameters[0]' is NULL");
  s.parameters = NULL, s.scale = 1024;
  CHECK_OK(laconic_average(method, g, 4, &s, NULL));
  laconic_method_free(method);
  laconic_transport_free(transport);
}

// A peer that is a function of the test: it agrees with all it is told, and then does this.
typedef enum Peer { ECHOES, SAYS_WHY, SAYS_NOTHING, SENDS_ZEROS } Peer;

static int play_peer(void* self, const laconic_send* sends, size_t send_count,
                     const laconic_receive* receives, size_t receive_count, double timeout_seconds,
                     const char* operation) {
  const Peer peer = *(const Peer*)self;
  CHECK(timeout_seconds > 0 && timeout_seconds <= 3600 && operation[0] != '\0');
  CHECK(send_count == 1 && receive_count == 1 && sends->to == 1 && receives->from == 1);
  if (peer == SAYS_WHY) laconic_set_error("the cable is cut");
  if (peer == SAYS_WHY || peer == SAYS_NOTHING) return 7;
  memset(receives->bytes, 0, receives->size);
  if (peer == ECHOES && sends->size == receives->size)
    memcpy(receives->bytes, sends->bytes, receives->size);
  return 0;
}

static void fail_with(Peer then, laconic_status status, const char* words) {
  Peer peer = ECHOES;
  const laconic_callbacks callbacks = {
      .struct_size = sizeof callbacks, .self = &peer, .size = 2, .exchange = play_peer};
  const laconic_step step = {.struct_size = sizeof step};
  laconic_transport* transport = transport_of(&callbacks);
  laconic_method_options options = options_of();
  float gradient[4] = {1, 2, 3, 4};
  options.timeout_seconds = 3600;
  laconic_method* method = method_on(transport, &options);
  peer = then;
  laconic_set_error("an older failure");
  CHECK_FAILS(laconic_average(method, gradient, 4, &step, NULL), status, words);
  laconic_method_free(method);

  // And when it does so already as ranks compare notes.
  CHECK_FAILS(laconic_method_create(transport, &options, &method), then == ECHOES ? 0 : status, "");
  laconic_method_free(method);
  laconic_transport_free(transport);
}

void test_refusals(void) {
  wrong_options();
  wrong_transports();
  wrong_groups();
  ages();
  null_arguments();
  wrong_steps();
  fail_with(SAYS_WHY, LACONIC_TRANSPORT, "(average of gradients): the cable is cut");
  fail_with(SAYS_WHY, LACONIC_TRANSPORT, "rank 0");
  fail_with(SAYS_NOTHING, LACONIC_TRANSPORT, "'exchange' returned 7 and left no error");
  fail_with(SENDS_ZEROS, LACONIC_DATA, "rank 1");
  fail_with(ECHOES, LACONIC_DATA, "from rank 1 in step 0");
}
