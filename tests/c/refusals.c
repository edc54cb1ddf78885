// What an aggregator refuses: options, structs, NULL, callbacks that fail, peers that send
// nonsense.
#include "check.h"

static const uint64_t shape[] = {2, 2};
static const laconic_tensor tensors[] = {{"w", 2, shape}};

static laconic_options options_of(void) {
  const laconic_options options = {
      .struct_size = sizeof options, .op = "identity", .tensors = tensors, .tensor_count = 1};
  return options;
}

static laconic_transport alone(void) {
  const laconic_transport transport = {.struct_size = sizeof transport, .size = 1};
  return transport;
}

static void refuse(const laconic_options* options, const char* words) {
  const laconic_transport transport = alone();
  laconic_aggregator* aggregator = (laconic_aggregator*)&transport;
  CHECK_FAILS(laconic_aggregator_create(&transport, options, &aggregator), LACONIC_USAGE, words);
  CHECK(aggregator == NULL);
}

static void wrong_options(void) {
  laconic_options o = options_of();
  o.exchange = "shout", refuse(&o, "no exchange 'shout'");
  o = options_of(), o.op = NULL, refuse(&o, "'options->op' is NULL");
  o = options_of(), o.op = "naturall", refuse(&o, "no operator 'naturall'");
  o = options_of(), o.memory = "elephant", refuse(&o, "no memory 'elephant'");
  o = options_of(), o.layout = "round", refuse(&o, "no layout 'round'");
  o = options_of(), o.tensors = NULL, refuse(&o, "'options->tensors' is NULL");
  o = options_of(), o.tensor_count = 0, refuse(&o, "'options->tensors' is empty");
  o = options_of(), o.rule_count = 1, refuse(&o, "'options->rules' is NULL");
  o = options_of(), o.threads = 5000, refuse(&o, "5000 threads");
  o = options_of(), o.timeout_seconds = -1, refuse(&o, "a time-out of -1");
  o = options_of(), o.timeout_seconds = NAN, refuse(&o, "a time-out of ");
  o = options_of(), o.timeout_seconds = INFINITY, refuse(&o, "a time-out of inf");
  o = options_of(), o.timeout_seconds = 1e9, refuse(&o, "a time-out of 1000000000");

  const char* const rules[] = {"max=3,op=identity", NULL};
  o = options_of(), o.rules = rules, o.rule_count = 2, refuse(&o, "'options->rules[1]' is NULL");
  const char* const wrong[] = {"max=3"};
  o = options_of(), o.rules = wrong, o.rule_count = 1, refuse(&o, "must end in op=SPEC");

  const uint64_t huge[] = {UINT64_MAX, UINT64_MAX}, half[] = {(uint64_t)1 << 47};
  laconic_tensor t[3] = {{"w", 2, shape}, {"v", 2, huge}, {"u", 1, half}};
  o = options_of(), o.tensors = t, o.tensor_count = 2;
  refuse(&o, "'options->tensors[1].shape' has more than 2^48");
  t[1] = t[2], o.tensor_count = 3, refuse(&o, "up to 2^48");
  t[1].name = NULL, refuse(&o, "'options->tensors[1].name' is NULL");
  t[1].name = "v", t[1].shape = NULL, refuse(&o, "'options->tensors[1].shape' is NULL");
  t[1].shape = shape, t[1].ndim = 65, refuse(&o, "65 dimensions");
}

static int unused_exchange(void* self, const laconic_send* sends, size_t send_count,
                           const laconic_receive* receives, size_t receive_count,
                           double timeout_seconds, const char* operation) {
  (void)self, (void)sends, (void)send_count, (void)receives, (void)receive_count;
  (void)timeout_seconds, (void)operation;
  return 0;
}

static void wrong_transports(void) {
  const laconic_options options = options_of();
  laconic_aggregator* a = NULL;
  laconic_transport t = alone();
  t.size = 0;
  CHECK_FAILS(laconic_aggregator_create(&t, &options, &a), LACONIC_USAGE, "rank 0 of 0");
  t.size = 2;
  CHECK_FAILS(laconic_aggregator_create(&t, &options, &a), LACONIC_USAGE, "'exchange'");
  t.exchange = unused_exchange;
  t.rank = 2;
  CHECK_FAILS(laconic_aggregator_create(&t, &options, &a), LACONIC_USAGE, "rank 2 of 2");
  t.struct_size = 0;
  CHECK_FAILS(laconic_aggregator_create(&t, &options, &a), LACONIC_USAGE,
              "struct_size of 'transport' is 0");
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
  const laconic_transport transport = alone();
  laconic_options options = options_of();
  laconic_aggregator* aggregator = NULL;
  float gradient[4] = {1, 2, 3, 4};
  options.op = "natural:nearest";
  CHECK_OK(laconic_aggregator_create(&transport, &options, &aggregator));
  CHECK_OK(laconic_average(aggregator, gradient, 4, &newer.known, &cost.known));
  CHECK(cost.later == 0 && cost.known.struct_size == sizeof cost && cost.known.dense_bytes == 16);
  CHECK(cost.known.traffic_bytes == 0 && gradient[2] != 3 && gradient[3] == 4);
  newer.later = 1;
  CHECK_FAILS(laconic_average(aggregator, gradient, 4, &newer.known, NULL), LACONIC_USAGE,
              "'step' uses fields");

  laconic_stats older = {.struct_size = offsetof(laconic_stats, traffic_bytes), .dense_bytes = 77};
  const laconic_step step = {.struct_size = sizeof step};
  CHECK_OK(laconic_average(aggregator, gradient, 4, &step, &older));
  CHECK(older.payload_bytes == 5 && older.dense_bytes == 77);
  older.struct_size = 1 << 20;
  gradient[2] = 3;
  CHECK_FAILS(laconic_average(aggregator, gradient, 4, &step, &older), LACONIC_USAGE,
              "struct_size of 'stats' is 1048576");
  CHECK(gradient[2] == 3);  // refused before the step, not after
  laconic_aggregator_free(aggregator);
}

static void null_arguments(void) {
  const laconic_options options = options_of();
  const laconic_step step = {.struct_size = sizeof step};
  laconic_transport transport = alone();
  laconic_aggregator* a = NULL;
  laconic_thread_group* group = NULL;
  float g[4] = {0};
  size_t n = 0;
  CHECK_FAILS(laconic_aggregator_create(NULL, &options, &a), LACONIC_USAGE, "'transport' is");
  CHECK_FAILS(laconic_aggregator_create(&transport, NULL, &a), LACONIC_USAGE, "'options' is");
  CHECK_FAILS(laconic_aggregator_create(&transport, &options, NULL), LACONIC_USAGE,
              "'aggregator' is");
  CHECK_FAILS(laconic_average(NULL, g, 4, &step, NULL), LACONIC_USAGE, "'aggregator' is");
  CHECK_FAILS(laconic_aggregator_save(NULL, g, 4, &n), LACONIC_USAGE, "'aggregator' is");
  CHECK_FAILS(laconic_aggregator_load(NULL, g, 4), LACONIC_USAGE, "'aggregator' is");
  CHECK_OK(laconic_aggregator_create(&transport, &options, &a));
  CHECK_FAILS(laconic_average(a, NULL, 4, &step, NULL), LACONIC_USAGE, "'gradient' is");
  CHECK_FAILS(laconic_average(a, g, 4, NULL, NULL), LACONIC_USAGE, "'step' is");
  CHECK_FAILS(laconic_average(a, g, 3, &step, NULL), LACONIC_USAGE, "3 entries for a model of 4");
  CHECK_FAILS(laconic_aggregator_save(a, g, 4, NULL), LACONIC_USAGE, "'size' is");
  CHECK_FAILS(laconic_aggregator_load(a, NULL, 4), LACONIC_USAGE, "'bytes' is");
  CHECK_FAILS(laconic_aggregator_load(a, g, sizeof g), LACONIC_DATA, "not a Laconic frame");
  laconic_aggregator_free(a);
  laconic_aggregator_free(NULL);

  CHECK_FAILS(laconic_thread_group_create(2, NULL), LACONIC_USAGE, "'group' is");
  CHECK_FAILS(laconic_thread_group_create(0, &group), LACONIC_USAGE, "0 ranks");
  CHECK_FAILS(laconic_thread_group_transport(NULL, 0, &transport), LACONIC_USAGE, "'group' is");
  CHECK_FAILS(laconic_thread_group_leave(NULL, 0), LACONIC_USAGE, "'group' is");
  CHECK_OK(laconic_thread_group_create(2, &group));
  CHECK_FAILS(laconic_thread_group_transport(group, 0, NULL), LACONIC_USAGE, "'transport' is");
  CHECK_FAILS(laconic_thread_group_transport(group, 2, &transport), LACONIC_USAGE, "rank 2 of 2");
  CHECK_OK(laconic_thread_group_transport(group, 0, &transport));
  CHECK(transport.exchange(NULL, NULL, 0, NULL, 0, 1, "test") == LACONIC_USAGE);
  CHECK(transport.exchange(transport.self, NULL, 1, NULL, 0, 1, "test") == LACONIC_USAGE);
  CHECK(transport.exchange(transport.self, NULL, 0, NULL, 0, NAN, "test") == LACONIC_USAGE);
  CHECK(transport.exchange(transport.self, NULL, 0, NULL, 0, 1, NULL) == LACONIC_USAGE);
  CHECK(transport.exchange(transport.self, NULL, 0, NULL, 0, 1, "test") == LACONIC_OK);
  laconic_thread_group_free(group);
  laconic_thread_group_free(NULL);
}

// A peer that is a function of the test: what `self` points to says how it behaves.
typedef enum Peer { SAYS_WHY, SAYS_NOTHING, SENDS_ZEROS } Peer;

static int play_peer(void* self, const laconic_send* sends, size_t send_count,
                     const laconic_receive* receives, size_t receive_count, double timeout_seconds,
                     const char* operation) {
  const Peer peer = *(const Peer*)self;
  CHECK(send_count == 1 && receive_count == 1 && sends->to == 1 && receives->from == 1);
  CHECK(timeout_seconds > 0 && timeout_seconds <= 2);
  CHECK(strcmp(operation, "all_gather of frames") == 0);
  if (peer == SAYS_WHY) laconic_set_error("the cable is cut");
  if (peer == SAYS_WHY || peer == SAYS_NOTHING) return 7;
  memset(receives->bytes, 0, receives->size);
  if (receives->size == 40) {  // first the message's head: as ours, but for the frame's size
    memcpy(receives->bytes, sends->bytes, 40);
    memset((unsigned char*)receives->bytes + 24, 0, 8);
    ((unsigned char*)receives->bytes)[24] = 20;
  }
  return 0;
}

static void fail_with(Peer peer, laconic_status status, const char* words) {
  const laconic_transport transport = {
      .struct_size = sizeof transport, .self = &peer, .size = 2, .exchange = play_peer};
  const laconic_step step = {.struct_size = sizeof step};
  laconic_options options = options_of();
  laconic_aggregator* aggregator = NULL;
  float gradient[4] = {1, 2, 3, 4};
  options.timeout_seconds = 2;
  CHECK_OK(laconic_aggregator_create(&transport, &options, &aggregator));
  laconic_set_error("an older failure");
  CHECK_FAILS(laconic_average(aggregator, gradient, 4, &step, NULL), status, words);
  CHECK(gradient[0] == 1 && gradient[1] == 2 && gradient[2] == 3 && gradient[3] == 4);
  laconic_aggregator_free(aggregator);
}

// A saved state is a frame whose sections have the tensors' names.
static void saved_state(void) {
  const laconic_transport transport = alone();
  laconic_options options = options_of();
  laconic_aggregator* aggregator = NULL;
  laconic_frame* frame = NULL;
  laconic_section section = {.struct_size = sizeof section};
  unsigned char bytes[300];
  size_t size = 0;
  options.memory = "feedback";
  CHECK_OK(laconic_aggregator_create(&transport, &options, &aggregator));
  CHECK_OK(laconic_aggregator_save(aggregator, bytes, sizeof bytes, &size));
  CHECK_OK(laconic_frame_read(bytes, size, 0, &frame));
  CHECK_OK(laconic_frame_section(frame, 0, &section));
  CHECK(strcmp(section.name, "feedback/w") == 0 && section.count == 4);
  laconic_frame_free(frame);

  // Another model does not take it, and neither does anybody when a byte is wrong.
  laconic_aggregator* other = NULL;
  laconic_tensor renamed = tensors[0];
  renamed.name = "v";
  options.tensors = &renamed;
  CHECK_OK(laconic_aggregator_create(&transport, &options, &other));
  CHECK_FAILS(laconic_aggregator_load(other, bytes, size), LACONIC_DATA, "no 'feedback/v'");
  bytes[size / 2] ^= 1;
  CHECK_FAILS(laconic_aggregator_load(aggregator, bytes, size), LACONIC_DATA, "damaged");
  laconic_aggregator_free(other);
  laconic_aggregator_free(aggregator);
}

void test_refusals(void) {
  wrong_options();
  wrong_transports();
  ages();
  null_arguments();
  fail_with(SAYS_WHY, LACONIC_TRANSPORT, "(all_gather of frames): the cable is cut");
  fail_with(SAYS_WHY, LACONIC_TRANSPORT, "rank 0");
  fail_with(SAYS_NOTHING, LACONIC_TRANSPORT, "'exchange' returned 7 and left no error");
  fail_with(SENDS_ZEROS, LACONIC_DATA, "from rank 1 in step 0: not a Laconic frame");
  saved_state();
}
