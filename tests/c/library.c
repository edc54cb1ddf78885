// Versions, the lists of what there is, instruction sets, and last errors.
#include "check.h"

#include <pthread.h>

static void versions(void) {
  CHECK(laconic_abi() == LACONIC_ABI);
  CHECK(laconic_data_version() >= 1);
  CHECK(strchr(laconic_version(), '.') != NULL);
}

// What programs were compiled against. A larger struct is fine when it has grown at its end;
// anything else is a new LACONIC_ABI.
static void layouts(void) {
  if (sizeof(void*) != 8) return;
  CHECK(sizeof(laconic_traits) == 56 && offsetof(laconic_traits, shared) == 48);
  CHECK(sizeof(laconic_keys) == 32);
  CHECK(sizeof(laconic_header) == 64 && offsetof(laconic_header, ranks) == 56);
  CHECK(sizeof(laconic_frame_info) == 128 && offsetof(laconic_frame_info, crc) == 120);
  CHECK(sizeof(laconic_section) == 64 && offsetof(laconic_section, rests) == 60);
  CHECK(sizeof(laconic_send) == 24 && sizeof(laconic_receive) == 24);
  CHECK(sizeof(laconic_callbacks) == 64 && offsetof(laconic_callbacks, all_reduce_float) == 32);
  CHECK(sizeof(laconic_tensor) == 24);
  CHECK(sizeof(laconic_method_options) == 80 && offsetof(laconic_method_options, guard) == 72);
  CHECK(sizeof(laconic_step) == 56 && offsetof(laconic_step, plain) == 48);
  CHECK(sizeof(laconic_stats) == 144 && offsetof(laconic_stats, lane) == 120);
}

static int listed(int kind, const char* name) {
  for (size_t i = 0; i < laconic_count(kind); ++i)
    if (strcmp(laconic_name(kind, i), name) == 0) return 1;
  return 0;
}

static void lists(void) {
  CHECK(listed(LACONIC_OPERATORS, "natural"));
  CHECK(listed(LACONIC_MEMORIES, "feedback"));
  CHECK(listed(LACONIC_LAYOUTS, "tensor"));
  CHECK(listed(LACONIC_EXCHANGES, "gather"));
  CHECK(listed(LACONIC_TRANSPORTS, "callbacks"));
  CHECK(listed(LACONIC_EXAMPLES, "natural+entropy"));
  CHECK(listed(LACONIC_CPUS, "scalar"));
  CHECK(listed(LACONIC_RECIPES, "natural-feedback"));
  for (int kind = LACONIC_OPERATORS; kind <= LACONIC_RECIPES; ++kind) {
    const size_t count = laconic_count(kind);
    for (size_t i = 0; i < count; ++i) {
      CHECK(laconic_name(kind, i)[0] != '\0');
      CHECK((laconic_summary(kind, i)[0] != '\0') ==
            (kind < LACONIC_EXAMPLES || kind == LACONIC_RECIPES));
      CHECK(laconic_paper(kind, i) != NULL);
      CHECK(laconic_name(kind, i) == laconic_name(kind, i));
    }
    CHECK(laconic_name(kind, count) == NULL);
    CHECK(strstr(laconic_last_error(), "no entry") != NULL);
  }
  CHECK(laconic_count(-1) == 0 && laconic_count(99) == 0);
  CHECK(laconic_summary(99, 0) == NULL);
  CHECK(strstr(laconic_last_error(), "no laconic_kind 99") != NULL);
}

// What is written of a built-in recipe is read as the same.
static void recipes(void) {
  char json[4096], again[4096];
  size_t size = 0, same = 0;
  for (size_t i = 0; i < laconic_count(LACONIC_RECIPES); ++i) {
    const char* name = laconic_name(LACONIC_RECIPES, i);
    CHECK_OK(laconic_recipe_check(name));
    CHECK_OK(laconic_recipe_json(name, json, sizeof json, &size));
    CHECK(strlen(json) + 1 == size && strstr(json, name) != NULL);
    CHECK_OK(laconic_recipe_check(json));
    CHECK_OK(laconic_recipe_json(json, again, sizeof again, &same));
    CHECK(same == size && same_bytes(json, again, size));
  }
  CHECK_OK(laconic_recipe_json("natural", NULL, 0, &size));
  CHECK(size > 10);
  CHECK_FAILS(laconic_recipe_json("natural", json, size - 1, &same), LACONIC_USAGE, "needed: ");
  CHECK(same == size);
  CHECK_FAILS(laconic_recipe_json("natural", json, sizeof json, NULL), LACONIC_USAGE, "'size' is");
  CHECK_FAILS(laconic_recipe_json(NULL, json, sizeof json, &size), LACONIC_USAGE, "'recipe' is");
  CHECK_FAILS(laconic_recipe_check(NULL), LACONIC_USAGE, "'recipe' is");
  CHECK_FAILS(laconic_recipe_check("no-such"), LACONIC_USAGE, "no recipe 'no-such'");
  CHECK_FAILS(laconic_recipe_check("{"), LACONIC_USAGE, "must be one JSON object");
  CHECK_FAILS(laconic_recipe_check("{\"name\": \"x\", \"op\": \"naturall\"}"), LACONIC_USAGE,
              "no operator 'naturall'");
}

static void instruction_sets(void) {
  CHECK_OK(laconic_use_cpu("scalar"));
  CHECK(strcmp(laconic_cpu(), "scalar") == 0);
  CHECK_FAILS(laconic_use_cpu("abacus"), LACONIC_USAGE, "'abacus'");
  CHECK_FAILS(laconic_use_cpu(NULL), LACONIC_USAGE, "'name' is NULL");
  CHECK_OK(laconic_use_cpu("auto"));
  CHECK(strcmp(laconic_cpu(), laconic_name(LACONIC_CPUS, 0)) == 0);
}

static void errors(void) {
  laconic_operator* op = NULL;
  CHECK_FAILS(laconic_operator_parse("natural:7", &op), LACONIC_USAGE, "'7' is not allowed");
  CHECK_OK(laconic_use_cpu("auto"));
  CHECK(strstr(laconic_last_error(), "'7'") != NULL);  // success leaves it alone
  laconic_set_error("mine");
  CHECK(strcmp(laconic_last_error(), "mine") == 0 && laconic_last_rank() == -1);
  laconic_set_error(laconic_last_error());
  CHECK(strcmp(laconic_last_error(), "mine") == 0);
  char longest[5000];
  memset(longest, 'x', sizeof longest);
  longest[sizeof longest - 1] = '\0';
  laconic_set_error(longest);
  CHECK(strlen(laconic_last_error()) > 1000 && strlen(laconic_last_error()) < sizeof longest);
  laconic_set_error(NULL);
  CHECK(laconic_last_error()[0] == '\0');
}

// Each of two threads fails in its own way, and finds its own sentence when both have failed.
static void* fail_alone(void* barrier) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static int next;
  char spec[16], quoted[20];
  laconic_operator* op = NULL;
  pthread_mutex_lock(&mutex);
  snprintf(spec, sizeof spec, "wrong%d", next++);
  pthread_mutex_unlock(&mutex);
  snprintf(quoted, sizeof quoted, "'%s'", spec);
  CHECK(laconic_last_error()[0] == '\0');
  CHECK_FAILS(laconic_operator_parse(spec, &op), LACONIC_USAGE, quoted);
  pthread_barrier_wait(barrier);
  CHECK(strstr(laconic_last_error(), quoted) != NULL);
  return NULL;
}

static void errors_of_threads(void) {
  pthread_t threads[2];
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, 2);
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, fail_alone, &barrier);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&barrier);
}

void test_library(void) {
  versions();
  layouts();
  lists();
  recipes();
  instruction_sets();
  errors();
  errors_of_threads();
}
