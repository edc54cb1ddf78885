// The C ABI from a C99 program: every function, its errors, and threads. Exits with 1 when a check
// failed.
#include "check.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int checks, failures;

static void report(int holds, const char* what, const char* why, const char* file, int line) {
  pthread_mutex_lock(&mutex);
  ++checks;
  failures += !holds;
  if (!holds) fprintf(stderr, "%s:%d: %s%s\n", file, line, what, why);
  pthread_mutex_unlock(&mutex);
}

void check_that(int holds, const char* what, const char* file, int line) {
  report(holds, what, " does not hold", file, line);
}

void check_status(laconic_status got, laconic_status want, const char* words, const char* what,
                  const char* file, int line) {
  char why[4096];
  const char* error = got ? laconic_last_error() : "";
  snprintf(why, sizeof why, ": status %d '%s', wanted %d '%s'", (int)got, error, (int)want, words);
  report(got == want && strstr(error, words) != NULL, what, why, file, line);
}

void fill(float* x, size_t count, unsigned seed) {
  unsigned state = seed * 2654435761u + 1;
  for (size_t i = 0; i < count; ++i) {
    double sum = 0;
    for (int k = 0; k < 4; ++k) {
      state = state * 1664525u + 1013904223u;
      sum += (double)(state >> 8) / (1 << 24) - 0.5;
    }
    x[i] = (float)ldexp(sum, (int)(state >> 28) - 12);
  }
}

int same_bytes(const void* a, const void* b, size_t size) {
  return size == 0 || memcmp(a, b, size) == 0;
}

laconic_operator* parse(const char* spec) {
  laconic_operator* op = NULL;
  CHECK_OK(laconic_operator_parse(spec, &op));
  return op;
}

laconic_scratch* scratch_of(unsigned threads) {
  laconic_scratch* scratch = NULL;
  CHECK_OK(laconic_scratch_create(threads, &scratch));
  return scratch;
}

laconic_method* method_on(laconic_transport* transport, const laconic_method_options* options) {
  laconic_method* method = NULL;
  CHECK_OK(laconic_method_create(transport, options, &method));
  return method;
}

void* saved(laconic_method* method, const float* const* parameters, size_t* size) {
  CHECK_OK(laconic_method_save(method, parameters, NULL, 0, size));
  void* bytes = malloc(*size + 1);
  CHECK_FAILS(laconic_method_save(method, parameters, bytes, *size - 1, size), LACONIC_USAGE,
              "needed: ");
  CHECK_OK(laconic_method_save(method, parameters, bytes, *size, size));
  return bytes;
}

int main(void) {
  test_library();
  test_operators();
  test_frames();
  test_average();
  test_steps();
  test_local();
  test_states();
  test_regroup();
  test_refusals();
  test_fork();
  test_sockets();
  printf("%d checks, %d failed\n", checks, failures);
  return failures > 0;
}
