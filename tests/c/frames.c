// Frames: written, read, damaged.
#include "check.h"

enum { COUNT = 3000, CAPACITY = 1 << 16 };

static const uint64_t shape[] = {30, 100};
static const laconic_header header = {
    .struct_size = sizeof header,
    .seed = UINT64_MAX,
    .step = 5,
    .rank = 2,
    .ranks = 4,
    .dtype = LACONIC_FLOAT16,
    .ndim = 2,
    .shape = shape,
};

static size_t write_frame(const laconic_operator* op, const float* x, unsigned char* bytes,
                          laconic_scratch* scratch) {
  size_t size = 0, most = 0;
  int finite = 0;
  CHECK_OK(laconic_frame_max_size(op, COUNT, 2, &most));
  CHECK_OK(laconic_frame_write(op, x, COUNT, &header, bytes, CAPACITY, &size, &finite, scratch));
  CHECK(size <= most);
  return size;
}

// The four bytes at the end, lowest first.
static uint32_t last_number(const unsigned char* bytes, size_t size) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number |= (uint32_t)bytes[size - 4 + i] << 8 * i;
  return number;
}

static void round_trip(const char* spec) {
  static float x[COUNT], y[COUNT], z[COUNT];
  static unsigned char bytes[CAPACITY];
  laconic_operator* op = parse(spec);
  laconic_scratch* scratch = scratch_of(2);
  laconic_frame* frame = NULL;
  fill(x, COUNT, 2);
  memset(y, 0, sizeof y);
  memset(z, 0, sizeof z);
  const size_t size = write_frame(op, x, bytes, scratch);
  CHECK_OK(laconic_frame_read(bytes, size, COUNT, &frame));

  laconic_frame_info info = {.struct_size = sizeof info};
  CHECK_OK(laconic_frame_describe(frame, &info));
  CHECK(strcmp(info.spec, laconic_operator_spec(op)) == 0);
  CHECK(info.count == COUNT && info.ndim == 2 && same_bytes(info.shape, shape, sizeof shape));
  CHECK(info.dtype == LACONIC_FLOAT16 && info.finite && info.complete && info.first == 0);
  CHECK(info.seed == UINT64_MAX && info.step == 5 && info.rank == 2 && info.ranks == 4);
  CHECK(info.crc == last_number(bytes, size));
  CHECK(info.wire_bytes == size && info.section_count == 1);

  laconic_section section = {.struct_size = sizeof section};
  CHECK_OK(laconic_frame_section(frame, 0, &section));
  CHECK(strcmp(section.name, "") == 0 && strcmp(section.op, info.spec) == 0);
  CHECK(section.first == 0 && section.count == COUNT && section.finite);
  CHECK(!section.rests);
  CHECK(section.size == info.payload_bytes && section.size < size);
  CHECK_FAILS(laconic_frame_section(frame, 1, &section), LACONIC_USAGE, "no section 1 of 1");

  // The frame decodes to what its section does.
  const laconic_keys keys = {info.seed, info.step, info.rank, 0};
  CHECK_OK(laconic_frame_check(frame, scratch));
  CHECK_OK(laconic_frame_add(frame, 0.25f, y, COUNT, scratch));
  CHECK_OK(laconic_add(op, section.bytes, section.size, 0.25f, z, COUNT, &keys, scratch));
  CHECK(same_bytes(y, z, sizeof y));
  CHECK_FAILS(laconic_frame_add(frame, 1, y, COUNT - 1, scratch), LACONIC_USAGE,
              "2999 entries for a frame of 3000");
  laconic_frame_free(frame);
  laconic_scratch_free(scratch);
  laconic_operator_free(op);
}

// Every single damaged byte and every cut is refused, and nothing is written.
static void damaged(void) {
  static float x[COUNT];
  static unsigned char bytes[CAPACITY];
  laconic_operator* op = parse("natural+entropy");
  laconic_scratch* scratch = scratch_of(1);
  laconic_frame* frame = NULL;
  fill(x, COUNT, 3);
  const size_t size = write_frame(op, x, bytes, scratch);
  size_t accepted = 0;
  for (size_t i = 0; i < size; ++i) {
    bytes[i] ^= 0x10;
    accepted += laconic_frame_read(bytes, size, 0, &frame) != LACONIC_DATA || frame != NULL;
    bytes[i] ^= 0x10;
    accepted += laconic_frame_read(bytes, i, 0, &frame) != LACONIC_DATA || frame != NULL;
  }
  CHECK(accepted == 0);
  CHECK_FAILS(laconic_frame_read("LACE", 4, 0, &frame), LACONIC_DATA, "cut short");
  CHECK_FAILS(laconic_frame_read(NULL, 0, 0, &frame), LACONIC_DATA, "not a Laconic frame");
  CHECK_FAILS(laconic_frame_read(bytes, size, COUNT - 1, &frame), LACONIC_DATA, "more than 2999");
  CHECK_OK(laconic_frame_read(bytes, size, 0, &frame));
  laconic_frame_free(frame);
  laconic_scratch_free(scratch);
  laconic_operator_free(op);
}

// CRC-32C, bit by bit.
static uint32_t crc32c(const unsigned char* bytes, size_t size) {
  uint32_t crc = 0xffffffff;
  for (size_t i = 0; i < size; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  return ~crc;
}

// A frame that is whole but whose section is not what its operator writes leaves y alone.
static void forged(void) {
  const float x[2] = {1, 2};
  float y[2] = {3, 4};
  unsigned char bytes[300];
  size_t size = 0;
  int finite = 0;
  laconic_operator* op = parse("identity");
  laconic_scratch* scratch = scratch_of(1);
  laconic_frame* frame = NULL;
  laconic_section section = {.struct_size = sizeof section};
  CHECK_OK(laconic_frame_write(op, x, 2, NULL, bytes, sizeof bytes, &size, &finite, scratch));
  CHECK_OK(laconic_frame_read(bytes, size, 0, &frame));
  CHECK_OK(laconic_frame_section(frame, 0, &section));
  memset(bytes + ((const unsigned char*)section.bytes - bytes) + 4, 0xff, 4);
  laconic_frame_free(frame);
  for (int i = 0; i < 4; ++i) bytes[size - 4 + i] = crc32c(bytes, size - 4) >> 8 * i & 0xff;
  CHECK_OK(laconic_frame_read(bytes, size, 0, &frame));
  CHECK_FAILS(laconic_frame_check(frame, scratch), LACONIC_DATA, "NaN or Inf");
  CHECK_FAILS(laconic_frame_add(frame, 1, y, 2, scratch), LACONIC_DATA, "NaN or Inf");
  CHECK(y[0] == 3 && y[1] == 4);
  laconic_frame_free(frame);
  laconic_scratch_free(scratch);
  laconic_operator_free(op);
}

// NaN and Inf travel uncompressed and marked.
static void not_finite(void) {
  const float x[3] = {1, INFINITY, -2};
  float y[3] = {0};
  unsigned char bytes[300];
  size_t size = 0, capacity = 0;
  int finite = 1;
  laconic_operator* op = parse("natural:8");
  laconic_scratch* scratch = scratch_of(1);
  laconic_frame* frame = NULL;
  CHECK_OK(laconic_frame_max_size(op, 3, 1, &capacity));
  CHECK(capacity <= sizeof bytes);
  CHECK_OK(laconic_frame_write(op, x, 3, NULL, bytes, capacity, &size, &finite, scratch));
  CHECK(finite == 0);
  CHECK_OK(laconic_frame_read(bytes, size, 3, &frame));
  laconic_frame_info info = {.struct_size = sizeof info};
  CHECK_OK(laconic_frame_describe(frame, &info));
  CHECK(!info.finite && info.payload_bytes == sizeof x && info.ndim == 1 && info.shape[0] == 3);
  CHECK_OK(laconic_frame_add(frame, 1, y, 3, scratch));
  CHECK(same_bytes(x, y, sizeof x));
  laconic_frame_free(frame);
  laconic_scratch_free(scratch);
  laconic_operator_free(op);
}

static void shapes(void) {
  const float x[6] = {1, 2, 3, 4, 5, 6};
  const uint64_t large[] = {UINT64_MAX, 6}, empty[] = {0, UINT64_MAX}, fitting[] = {1, 6};
  unsigned char b[300];
  size_t size = 0;
  int fin = 0;
  laconic_operator* op = parse("identity");
  laconic_scratch* s = scratch_of(1);
  laconic_header h = {.struct_size = sizeof h, .ndim = 2, .shape = fitting};
  CHECK_OK(laconic_frame_write(op, x, 6, &h, b, sizeof b, &size, &fin, s));
  CHECK_FAILS(laconic_frame_write(op, x, 6, &h, b, 30, &size, &fin, s), LACONIC_USAGE,
              "30 bytes; needed: ");
  CHECK(size > 30 && size < sizeof b);
  CHECK_OK(laconic_frame_write(op, x, 6, &h, b, size, &size, &fin, s));
  CHECK_FAILS(laconic_frame_write(op, x, 5, &h, b, sizeof b, &size, &fin, s), LACONIC_USAGE,
              "6 entries for an array of 5");
  h.shape = large;
  CHECK_FAILS(laconic_frame_write(op, x, 6, &h, b, sizeof b, &size, &fin, s), LACONIC_USAGE,
              "more than 2^48");
  h.shape = empty;
  CHECK_FAILS(laconic_frame_write(op, x, 0, &h, b, sizeof b, &size, &fin, s), LACONIC_USAGE,
              "more than 2^48");
  h.ndim = 0;  // a number without dimensions
  CHECK_OK(laconic_frame_write(op, x, 1, &h, b, sizeof b, &size, &fin, s));
  h.ndim = 65;
  CHECK_FAILS(laconic_frame_write(op, x, 1, &h, b, sizeof b, &size, &fin, s), LACONIC_USAGE,
              "65 dimensions");
  h.shape = NULL;
  h.dtype = LACONIC_BFLOAT16;
  CHECK_OK(laconic_frame_write(op, x, 6, &h, b, sizeof b, &size, &fin, s));
  h.rank = h.ranks = 6;
  CHECK_FAILS(laconic_frame_write(op, x, 6, &h, b, sizeof b, &size, &fin, s), LACONIC_USAGE,
              "a frame of rank 6 of 6");
  h.dtype = 4;
  CHECK_FAILS(laconic_frame_write(op, x, 6, &h, b, sizeof b, &size, &fin, s), LACONIC_USAGE,
              "'header->dtype' is 4");
  laconic_scratch_free(s);
  laconic_operator_free(op);
}

static void null_arguments(void) {
  float x[4] = {1, 2, 3, 4};
  unsigned char b[300];
  size_t n = 0;
  int fin = 0;
  laconic_operator* op = parse("identity");
  laconic_scratch* s = scratch_of(1);
  laconic_frame* f = NULL;
  laconic_frame_info info = {.struct_size = sizeof info};
  laconic_section section = {.struct_size = sizeof section};
  CHECK_FAILS(laconic_frame_max_size(NULL, 4, 1, &n), LACONIC_USAGE, "'op' is");
  CHECK_FAILS(laconic_frame_max_size(op, 4, 1, NULL), LACONIC_USAGE, "'size' is");
  CHECK_FAILS(laconic_frame_write(NULL, x, 4, NULL, b, 300, &n, &fin, s), LACONIC_USAGE, "'op' is");
  CHECK_FAILS(laconic_frame_write(op, NULL, 4, NULL, b, 300, &n, &fin, s), LACONIC_USAGE, "'x' is");
  CHECK_FAILS(laconic_frame_write(op, x, 4, NULL, NULL, 300, &n, &fin, s), LACONIC_USAGE,
              "'buffer' is");
  CHECK_FAILS(laconic_frame_write(op, x, 4, NULL, b, 300, NULL, &fin, s), LACONIC_USAGE,
              "'size' is");
  CHECK_FAILS(laconic_frame_write(op, x, 4, NULL, b, 300, &n, NULL, s), LACONIC_USAGE,
              "'finite' is");
  CHECK_FAILS(laconic_frame_write(op, x, 4, NULL, b, 300, &n, &fin, NULL), LACONIC_USAGE,
              "'scratch' is");
  CHECK_OK(laconic_frame_write(op, x, 4, NULL, b, 300, &n, &fin, s));
  CHECK_FAILS(laconic_frame_read(NULL, n, 0, &f), LACONIC_USAGE, "'bytes' is");
  CHECK_FAILS(laconic_frame_read(b, n, 0, NULL), LACONIC_USAGE, "'frame' is");
  CHECK_FAILS(laconic_frame_describe(NULL, &info), LACONIC_USAGE, "'frame' is");
  CHECK_FAILS(laconic_frame_section(NULL, 0, &section), LACONIC_USAGE, "'frame' is");
  CHECK_FAILS(laconic_frame_check(NULL, s), LACONIC_USAGE, "'frame' is");
  CHECK_FAILS(laconic_frame_add(NULL, 1, x, 4, s), LACONIC_USAGE, "'frame' is");
  CHECK_OK(laconic_frame_read(b, n, 0, &f));
  CHECK_FAILS(laconic_frame_describe(f, NULL), LACONIC_USAGE, "'info' is");
  CHECK_FAILS(laconic_frame_section(f, 0, NULL), LACONIC_USAGE, "'section' is");
  CHECK_FAILS(laconic_frame_check(f, NULL), LACONIC_USAGE, "'scratch' is");
  CHECK_FAILS(laconic_frame_add(f, 1, NULL, 4, s), LACONIC_USAGE, "'y' is");
  CHECK_FAILS(laconic_frame_add(f, 1, x, 4, NULL), LACONIC_USAGE, "'scratch' is");
  laconic_frame_free(f);
  laconic_frame_free(NULL);
  laconic_scratch_free(s);
  laconic_operator_free(op);
}

void test_frames(void) {
  for (size_t i = 0; i < laconic_count(LACONIC_EXAMPLES); ++i)
    round_trip(laconic_name(LACONIC_EXAMPLES, i));
  damaged();
  forged();
  not_finite();
  shapes();
  null_arguments();
}
