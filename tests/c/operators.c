// Operators: laws over every example, then errors one by one.
#include "check.h"

enum { COUNT = 9001 };

static const laconic_keys keys = {7, 3, 1, 1000};

typedef struct Section {
  unsigned char* bytes;
  size_t size;
} Section;

static Section encode(const laconic_operator* op, const float* x, size_t count,
                      const laconic_keys* with, laconic_scratch* scratch) {
  Section section = {NULL, 0};
  size_t capacity = 0;
  int finite = 0;
  CHECK_OK(laconic_operator_max_size(op, count, &capacity));
  section.bytes = malloc(capacity + 1);
  CHECK_OK(
      laconic_encode(op, x, count, with, section.bytes, capacity, &section.size, &finite, scratch));
  CHECK(finite == 1 && section.size <= capacity);
  return section;
}

static double distance(const float* a, const float* b, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
  return sum;
}

static void traits_hold(const laconic_operator* op, const float* x, const float* y) {
  laconic_traits traits = {.struct_size = sizeof traits};
  static const float zero[COUNT];
  CHECK_OK(laconic_operator_traits(op, COUNT, &traits));
  const double error = distance(x, y, COUNT), length = distance(x, zero, COUNT);
  const double beside = traits.absolute * traits.absolute * COUNT;
  if (!traits.random && !traits.shared) {  // else the claims are about the mean over many draws
    if (traits.has_omega) CHECK(error <= traits.omega * length);
    if (traits.has_delta) CHECK(error <= (1 - traits.delta) * length + beside);
  }
  CHECK(traits.has_omega || traits.omega == 0);
  CHECK(traits.has_delta || traits.delta == 0);
}

// The spec is a fixed point; what is decoded lies where the traits say; `add` is linear in its
// weight; the same keys give the same bytes whatever the threads and the instruction set.
static void laws(const char* spec) {
  static float x[COUNT], y[COUNT], twice[COUNT];
  laconic_operator* op = parse(spec);
  laconic_operator* again = parse(laconic_operator_spec(op));
  laconic_scratch* scratch = scratch_of(1);
  laconic_scratch* more = scratch_of(3);
  fill(x, COUNT, 1);
  memset(y, 0, sizeof y);
  memset(twice, 0, sizeof twice);

  CHECK(strcmp(laconic_operator_spec(op), laconic_operator_spec(again)) == 0);
  const Section section = encode(op, x, COUNT, &keys, scratch);
  CHECK_OK(laconic_check(op, section.bytes, section.size, COUNT, &keys, scratch));
  CHECK_OK(laconic_add(op, section.bytes, section.size, 1, y, COUNT, &keys, scratch));
  CHECK_OK(laconic_add(op, section.bytes, section.size, 2, twice, COUNT, &keys, scratch));
  traits_hold(op, x, y);
  for (size_t i = 0; i < COUNT; ++i) twice[i] *= 0.5f;
  CHECK(distance(y, twice, COUNT) == 0);

  for (size_t i = 0; i < laconic_count(LACONIC_CPUS); ++i) {
    CHECK_OK(laconic_use_cpu(laconic_name(LACONIC_CPUS, i)));
    const Section other = encode(again, x, COUNT, &keys, more);
    CHECK(other.size == section.size && same_bytes(other.bytes, section.bytes, section.size));
    free(other.bytes);
  }
  CHECK_OK(laconic_use_cpu("auto"));

  free(section.bytes);
  laconic_scratch_free(more);
  laconic_scratch_free(scratch);
  laconic_operator_free(again);
  laconic_operator_free(op);
}

static void keys_matter(void) {
  static float x[COUNT];
  laconic_operator* op = parse("natural");
  laconic_scratch* scratch = scratch_of(1);
  fill(x, COUNT, 1);
  const Section section = encode(op, x, COUNT, &keys, scratch);
  const laconic_keys others[] = {
      {8, 3, 1, 1000}, {7, 4, 1, 1000}, {7, 3, 2, 1000}, {7, 3, 1, 1001}};
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i) {
    const Section other = encode(op, x, COUNT, &others[i], scratch);
    CHECK(!same_bytes(other.bytes, section.bytes, section.size));
    free(other.bytes);
  }
  // A part of the array, with its own position, draws what the whole drew there: its exponents are
  // the same bytes.
  const laconic_keys at = {7, 3, 1, 1000 + 100};
  const Section part = encode(op, x + 100, 500, &at, scratch);
  CHECK(same_bytes(part.bytes, section.bytes + 100, 500));
  free(part.bytes);
  free(section.bytes);
  laconic_scratch_free(scratch);
  laconic_operator_free(op);
}

static void edges(void) {
  const float bad[3] = {1, NAN, 2};
  float y[3] = {1, 2, 3};
  unsigned char bytes[64];
  size_t size = 99;
  int finite = 99;
  laconic_operator* op = parse("identity");
  laconic_scratch* scratch = scratch_of(1);
  CHECK_OK(laconic_encode(op, bad, 3, &keys, bytes, sizeof bytes, &size, &finite, scratch));
  CHECK(finite == 0 && size == 0);
  CHECK_OK(laconic_encode(op, NULL, 0, &keys, NULL, 0, &size, &finite, scratch));
  CHECK(finite == 1 && size == 0);
  CHECK_OK(laconic_check(op, NULL, 0, 0, &keys, scratch));
  CHECK_OK(laconic_add(op, NULL, 0, 1, NULL, 0, &keys, scratch));

  CHECK_FAILS(laconic_encode(op, y, 3, &keys, bytes, 11, &size, &finite, scratch), LACONIC_USAGE,
              "11 bytes; needed: 12");
  CHECK(size == 12);
  CHECK_OK(laconic_encode(op, y, 3, &keys, bytes, 12, &size, &finite, scratch));
  CHECK_FAILS(laconic_check(op, bytes, 11, 3, &keys, scratch), LACONIC_DATA, "11 bytes");
  CHECK_FAILS(laconic_add(op, bytes, 12, 1, y, 2, &keys, scratch), LACONIC_DATA, "12 bytes");
  memset(bytes + 8, 0xff, 4);  // a NaN
  CHECK_FAILS(laconic_add(op, bytes, 12, 1, y, 3, &keys, scratch), LACONIC_DATA, "NaN");
  CHECK(y[0] == 1 && y[1] == 2 && y[2] == 3);
  laconic_scratch_free(scratch);
  laconic_operator_free(op);
}

static void wrong_specs(void) {
  laconic_operator* op = (laconic_operator*)&keys;
  CHECK_FAILS(laconic_operator_parse("topkk", &op), LACONIC_USAGE, "no operator 'topkk'; known:");
  CHECK(op == NULL);
  CHECK_FAILS(laconic_operator_parse("", &op), LACONIC_USAGE, "empty stage");
  CHECK_FAILS(laconic_operator_parse("entropy+natural", &op), LACONIC_USAGE, "cannot follow");
  CHECK_FAILS(laconic_operator_parse("natural:\xc3\xa4", &op), LACONIC_USAGE,
              "0xc3 in place 9; allowed: letters");
}

static void null_arguments(void) {
  laconic_operator* op = parse("natural");
  laconic_scratch* s = scratch_of(1);
  laconic_traits traits = {.struct_size = sizeof traits};
  float x[4] = {0};
  unsigned char b[64];
  size_t size = 0;
  int fin = 0;
  const laconic_keys* k = &keys;
  laconic_operator* none = op;
  CHECK_FAILS(laconic_operator_parse(NULL, &none), LACONIC_USAGE, "'spec' is NULL");
  CHECK(none == NULL);
  CHECK_FAILS(laconic_operator_parse("natural", NULL), LACONIC_USAGE, "'op' is NULL");
  CHECK_FAILS(laconic_scratch_create(1, NULL), LACONIC_USAGE, "'scratch' is NULL");
  CHECK(laconic_operator_spec(NULL) == NULL);
  CHECK(strstr(laconic_last_error(), "'op' is NULL") != NULL);
  CHECK_FAILS(laconic_operator_traits(NULL, 4, &traits), LACONIC_USAGE, "'op' is NULL");
  CHECK_FAILS(laconic_operator_traits(op, 4, NULL), LACONIC_USAGE, "'traits' is NULL");
  CHECK_FAILS(laconic_operator_max_size(NULL, 4, &size), LACONIC_USAGE, "'op' is NULL");
  CHECK_FAILS(laconic_operator_max_size(op, 4, NULL), LACONIC_USAGE, "'size' is NULL");
  CHECK_FAILS(laconic_encode(NULL, x, 4, k, b, 64, &size, &fin, s), LACONIC_USAGE, "'op' is");
  CHECK_FAILS(laconic_encode(op, NULL, 4, k, b, 64, &size, &fin, s), LACONIC_USAGE, "'x' is");
  CHECK_FAILS(laconic_encode(op, x, 4, NULL, b, 64, &size, &fin, s), LACONIC_USAGE, "'keys' is");
  CHECK_FAILS(laconic_encode(op, x, 4, k, NULL, 64, &size, &fin, s), LACONIC_USAGE, "'buffer' is");
  CHECK_FAILS(laconic_encode(op, x, 4, k, b, 64, NULL, &fin, s), LACONIC_USAGE, "'size' is");
  CHECK_FAILS(laconic_encode(op, x, 4, k, b, 64, &size, NULL, s), LACONIC_USAGE, "'finite' is");
  CHECK_FAILS(laconic_encode(op, x, 4, k, b, 64, &size, &fin, NULL), LACONIC_USAGE, "'scratch' is");
  CHECK_FAILS(laconic_check(NULL, b, 8, 4, k, s), LACONIC_USAGE, "'op' is");
  CHECK_FAILS(laconic_check(op, NULL, 8, 4, k, s), LACONIC_USAGE, "'bytes' is");
  CHECK_FAILS(laconic_check(op, b, 8, 4, k, NULL), LACONIC_USAGE, "'scratch' is");
  CHECK_FAILS(laconic_check(op, b, 8, 4, NULL, s), LACONIC_USAGE, "'keys' is");
  CHECK_FAILS(laconic_add(NULL, b, 8, 1, x, 4, k, s), LACONIC_USAGE, "'op' is");
  CHECK_FAILS(laconic_add(op, NULL, 8, 1, x, 4, k, s), LACONIC_USAGE, "'bytes' is");
  CHECK_FAILS(laconic_add(op, b, 8, 1, NULL, 4, k, s), LACONIC_USAGE, "'y' is");
  CHECK_FAILS(laconic_add(op, b, 8, 1, x, 4, NULL, s), LACONIC_USAGE, "'keys' is");
  CHECK_FAILS(laconic_add(op, b, 8, 1, x, 4, k, NULL), LACONIC_USAGE, "'scratch' is");
  laconic_operator_free(op);
  laconic_scratch_free(s);
  laconic_operator_free(NULL);
  laconic_scratch_free(NULL);
}

static void absurd_numbers(void) {
  laconic_operator* op = parse("natural");
  laconic_scratch* scratch = NULL;
  laconic_traits traits = {.struct_size = 0};
  size_t size = 0;
  CHECK_FAILS(laconic_operator_max_size(op, SIZE_MAX, &size), LACONIC_USAGE, "up to 2^48");
  CHECK_FAILS(laconic_operator_traits(op, SIZE_MAX, &traits), LACONIC_USAGE, "up to 2^48");
  CHECK_FAILS(laconic_operator_traits(op, 1, &traits), LACONIC_USAGE,
              "struct_size of 'traits' is 0");
  CHECK_FAILS(laconic_scratch_create(0, &scratch), LACONIC_USAGE, "0 threads");
  CHECK(scratch == NULL);
  laconic_operator_free(op);
}

void test_operators(void) {
  for (size_t i = 0; i < laconic_count(LACONIC_EXAMPLES); ++i)
    laws(laconic_name(LACONIC_EXAMPLES, i));
  keys_matter();
  edges();
  wrong_specs();
  null_arguments();
  absurd_numbers();
}
