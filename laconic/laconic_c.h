// Laconic for C99 programs and for every language that can call C.
//
//   #include <laconic/laconic_c.h>
//   #include <stdio.h>
//   #include <stdlib.h>
//
//   // Adds to y what receivers of x see, through one frame and back.
//   static laconic_status round_trip(const float* x, float* y, size_t count) {
//     laconic_operator* op = NULL;
//     laconic_scratch* scratch = NULL;
//     laconic_frame* frame = NULL;
//     size_t capacity = 0, size = 0;
//     int finite = 0;
//     void* bytes = NULL;
//     laconic_status status = laconic_operator_parse("natural+entropy", &op);
//     if (!status) status = laconic_scratch_create(1, &scratch);
//     if (!status) status = laconic_frame_max_size(op, count, 1, &capacity);
//     if (!status) bytes = malloc(capacity);
//     if (!status)
//       status = laconic_frame_write(op, x, count, NULL, bytes, capacity, &size, &finite, scratch);
//     if (!status) status = laconic_frame_read(bytes, size, count, &frame);
//     if (!status) status = laconic_frame_add(frame, 1.0f, y, count, scratch);
//     if (status) fprintf(stderr, "%s\n", laconic_last_error());
//     laconic_frame_free(frame);
//     free(bytes);
//     laconic_scratch_free(scratch);
//     laconic_operator_free(op);
//     return status;
//   }
//
// In training, laconic_average does this for every slice and every rank over a transport of the
// caller's.
//
// Rules for all functions. Whoever creates a handle frees it; freeing NULL does nothing. Handles
// written through an out pointer are NULL when the function fails. Texts are UTF-8 and end in a
// zero byte; those given to a function are only read during the call, and so are arrays unless said
// otherwise. No pointer may be NULL unless said otherwise; a NULL array of 0 entries is fine. A
// handle is used by one thread at a time, except operators and frames, which never change. Structs
// with a struct_size must have it set to their sizeof and every field they do not use set to 0:
// fields are only ever added at the end, so older programs keep working.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LACONIC_API __attribute__((visibility("default")))
#else
#define LACONIC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// ---- Errors ----

// The same numbers are the program's exit codes.
typedef enum laconic_status {
  LACONIC_OK = 0,
  LACONIC_SYSTEM = 1,     // no memory, no thread
  LACONIC_USAGE = 2,      // a wrong spec, option or argument
  LACONIC_DATA = 3,       // bytes that are not what they should be
  LACONIC_TRANSPORT = 4,  // a peer that does not answer, a callback that failed
} laconic_status;

// One sentence about the calling thread's last failure, or "". The library's; valid until the
// thread's next failure.
LACONIC_API const char* laconic_last_error(void);

// Sets the calling thread's sentence: for callbacks, before they return a failure. NULL clears it.
LACONIC_API void laconic_set_error(const char* text);

// ---- Versions ----

// The interface of this header. It changes only when a program must be compiled again.
#define LACONIC_ABI 1

// The interface of the library that was loaded: must equal LACONIC_ABI.
LACONIC_API unsigned laconic_abi(void);

// The library's version, such as "0.1.0". The library's.
LACONIC_API const char* laconic_version(void);

// The version of the bytes that frames are made of (docs/frame.md).
LACONIC_API unsigned laconic_data_version(void);

// ---- What there is ----

typedef enum laconic_kind {
  LACONIC_OPERATORS = 0,
  LACONIC_MEMORIES = 1,
  LACONIC_LAYOUTS = 2,
  LACONIC_EXCHANGES = 3,
  LACONIC_TRANSPORTS = 4,
  LACONIC_EXAMPLES = 5,  // operator specs that every test of all operators runs
  LACONIC_CPUS = 6,      // the instruction sets of this machine, best first
} laconic_kind;

// How many there are of a laconic_kind; 0 for a number that is none.
LACONIC_API size_t laconic_count(int kind);

// Name, one sentence and the paper of entry i; "" where there is nothing to say, NULL (and a last
// error) when there is no such entry. The library's, for as long as it is loaded.
LACONIC_API const char* laconic_name(int kind, size_t i);
LACONIC_API const char* laconic_summary(int kind, size_t i);
LACONIC_API const char* laconic_paper(int kind, size_t i);

// Forces one of LACONIC_CPUS, or "auto" for the best, for the whole process. Every choice gives the
// same bytes. Not to be called while another thread is in the library.
LACONIC_API laconic_status laconic_use_cpu(const char* name);

// The instruction set in use: an entry of LACONIC_CPUS. As above, not to be called while another
// thread is in the library, and so is the first question about LACONIC_CPUS.
LACONIC_API const char* laconic_cpu(void);

// ---- Operators: floats to bytes and back ----

// A parsed spec such as "natural+entropy". Immutable: any number of threads may use one.
typedef struct laconic_operator laconic_operator;

// Working memory that is kept between calls, with its threads. One per calling thread.
typedef struct laconic_scratch laconic_scratch;

// `threads` counts the caller: 1 starts none. How many there are changes no byte.
LACONIC_API laconic_status laconic_scratch_create(unsigned threads, laconic_scratch** scratch);
LACONIC_API void laconic_scratch_free(laconic_scratch* scratch);

// LACONIC_USAGE names what is wrong with the spec and what is allowed.
LACONIC_API laconic_status laconic_operator_parse(const char* spec, laconic_operator** op);
LACONIC_API void laconic_operator_free(laconic_operator* op);

// The canonical spelling. The operator's; NULL (and a last error) for a NULL operator.
LACONIC_API const char* laconic_operator_spec(const laconic_operator* op);

// What is known of an operator on `count` entries.
typedef struct laconic_traits {
  size_t struct_size;
  int unbiased;  // E C(x) = x
  int random;    // draws from this rank's own key
  int has_omega, has_delta;
  double omega;     // if has_omega: E|C(x) - x|^2 <= omega |x|^2
  double delta;     // if has_delta: E|C(x) - x|^2 <= (1 - delta) |x|^2 + absolute^2 count
  double absolute;  // 0: a contraction in the papers' sense
  int shared;       // draws from the key all ranks have in common
} laconic_traits;

LACONIC_API laconic_status laconic_operator_traits(const laconic_operator* op, size_t count,
                                                   laconic_traits* traits);

// An upper bound on the bytes laconic_encode writes for `count` entries.
LACONIC_API laconic_status laconic_operator_max_size(const laconic_operator* op, size_t count,
                                                     size_t* size);

// What random operators draw from: the same keys give the same bytes. `first` is the position of
// the first entry in the whole model, so that cutting a model in other slices draws the same
// numbers.
typedef struct laconic_keys {
  uint64_t seed, step, rank, first;
} laconic_keys;

// Writes x as one section into the caller's buffer. When x holds NaN or Inf, *finite is 0 and *size
// 0. When the capacity is too small, the result is LACONIC_USAGE and *size what is needed.
LACONIC_API laconic_status laconic_encode(const laconic_operator* op, const float* x, size_t count,
                                          const laconic_keys* keys, void* buffer, size_t capacity,
                                          size_t* size, int* finite, laconic_scratch* scratch);

// LACONIC_DATA unless the bytes are a whole, valid section of `count` entries.
LACONIC_API laconic_status laconic_check(const laconic_operator* op, const void* bytes, size_t size,
                                         size_t count, laconic_scratch* scratch);

// y += weight * decoded, with the keys given to laconic_encode. Checks first: when it fails, y is
// as it was.
LACONIC_API laconic_status laconic_add(const laconic_operator* op, const void* bytes, size_t size,
                                       float weight, float* y, size_t count,
                                       const laconic_keys* keys, laconic_scratch* scratch);

// ---- Frames: arrays as messages that can be decoded alone ----

// Type of the array before compression. It is kept for the reader; values are passed as float in
// any case.
typedef enum laconic_dtype {
  LACONIC_FLOAT32 = 0,
  LACONIC_FLOAT16 = 1,
  LACONIC_FLOAT64 = 2,
  LACONIC_BFLOAT16 = 3,
} laconic_dtype;

// What a frame tells about its array.
typedef struct laconic_header {
  size_t struct_size;
  uint64_t seed, step, rank;
  int dtype;  // a laconic_dtype
  size_t ndim;
  const uint64_t* shape;  // ndim extents whose product is the count; NULL: one dimension
  uint64_t ranks;         // how many there are; 0: not said
} laconic_header;

// An upper bound on the bytes laconic_frame_write writes for `count` entries in ndim dimensions.
LACONIC_API laconic_status laconic_frame_max_size(const laconic_operator* op, size_t count,
                                                  size_t ndim, size_t* size);

// Writes one array as one frame into the caller's buffer. A NULL header is one dimension and zeros.
// When x holds NaN or Inf, *finite is 0 and the frame holds x uncompressed. When the capacity is
// too small, the result is LACONIC_USAGE and *size what is needed.
LACONIC_API laconic_status laconic_frame_write(const laconic_operator* op, const float* x,
                                               size_t count, const laconic_header* header,
                                               void* buffer, size_t capacity, size_t* size,
                                               int* finite, laconic_scratch* scratch);

// A frame that was read and found whole. It points into the bytes it was read from. Immutable: any
// number of threads may use one.
typedef struct laconic_frame laconic_frame;

// Reads a frame's head and table; the bytes must stay as they are until the frame is freed.
// LACONIC_DATA for anything that is not a whole frame, or one whose array has more than max_count
// entries (0: 2^31).
LACONIC_API laconic_status laconic_frame_read(const void* bytes, size_t size, uint64_t max_count,
                                              laconic_frame** frame);
LACONIC_API void laconic_frame_free(laconic_frame* frame);

typedef struct laconic_frame_info {
  size_t struct_size;
  const char* spec;       // its operators' specs, joined by a space
  uint64_t count;         // entries of the whole array
  size_t ndim;            //
  const uint64_t* shape;  // ndim extents
  int dtype;              // a laconic_dtype
  int finite;             // 0: some section holds NaN or Inf
  int complete;           // 0: the sections are only a part of the array
  uint64_t first;         // position of the first section in the array, 0 if there is none
  uint64_t seed, step, rank;
  uint64_t payload_bytes;  // of all sections
  uint64_t wire_bytes;     // of the whole frame
  size_t section_count;
  uint64_t ranks;  // how many there are; 0: not said
  uint32_t crc;    // the frame's checksum, which was verified
} laconic_frame_info;

// Pointers in the info are the frame's.
LACONIC_API laconic_status laconic_frame_describe(const laconic_frame* frame,
                                                  laconic_frame_info* info);

typedef struct laconic_section {
  size_t struct_size;
  const char* name;  // often empty
  const char* op;    // spec of its operator
  uint64_t first;    // position in the array
  size_t count;
  const void* bytes;
  size_t size;  // of bytes
  int finite;   // 0: plain floats, some of them NaN or Inf
  int rests;    // 1: no bytes; stands for zeros, and the sender's memory stayed as it was
} laconic_section;

// Section i. Pointers in it are the frame's.
LACONIC_API laconic_status laconic_frame_section(const laconic_frame* frame, size_t i,
                                                 laconic_section* section);

// LACONIC_DATA unless every section's bytes are valid.
LACONIC_API laconic_status laconic_frame_check(const laconic_frame* frame,
                                               laconic_scratch* scratch);

// y += weight * the frame's array; `count` is the array's. Entries that no section covers stay.
// Checks all sections first: when it fails, y is as it was.
LACONIC_API laconic_status laconic_frame_add(const laconic_frame* frame, float weight, float* y,
                                             size_t count, laconic_scratch* scratch);

// ---- Transports: how ranks reach each other ----

typedef struct laconic_send {
  int to;
  const void* bytes;
  size_t size;
} laconic_send;

typedef struct laconic_receive {
  int from;
  void* bytes;  // to be filled with exactly `size` bytes
  size_t size;
} laconic_receive;

// What the caller provides. Callbacks run in the thread that calls laconic_average. They return 0
// only when all is done; any other number fails the step with LACONIC_TRANSPORT and the sentence
// left by laconic_set_error. They must give up after timeout_seconds; `operation` says for what
// they wait, such as "all_gather of frames".
typedef struct laconic_transport {
  size_t struct_size;
  void* self;  // handed to the callbacks
  int rank, size;
  // Starts all sends and receives, then waits for all of them, so that no order among ranks can
  // deadlock. Messages between two ranks arrive in the order sent. May be NULL when size is 1.
  int (*exchange)(void* self, const laconic_send* sends, size_t send_count,
                  const laconic_receive* receives, size_t receive_count, double timeout_seconds,
                  const char* operation);
  // Replaces values by their sums over ranks, equal bit for bit on every rank. NULL: made from
  // exchange.
  int (*all_reduce_float)(void* self, float* values, size_t count, double timeout_seconds,
                          const char* operation);
} laconic_transport;

// Ranks as threads of one process: for tests and for training on one machine.
typedef struct laconic_thread_group laconic_thread_group;

LACONIC_API laconic_status laconic_thread_group_create(int size, laconic_thread_group** group);

// Fills in the transport of one rank, for one thread. It is the group's and ends when the rank
// leaves.
LACONIC_API laconic_status laconic_thread_group_transport(laconic_thread_group* group, int rank,
                                                          laconic_transport* transport);

// A rank that stops tells the others: whoever waits for it fails at once instead of after the
// timeout. To be called by the rank's own thread, after its aggregator is freed or used no more.
LACONIC_API laconic_status laconic_thread_group_leave(laconic_thread_group* group, int rank);

// After all aggregators on it are freed or used no more.
LACONIC_API void laconic_thread_group_free(laconic_thread_group* group);

// ---- Aggregators: every rank's gradient to their mean ----

// One tensor of the model. Tensors lie one after the other in the flat gradient, in the order
// given.
typedef struct laconic_tensor {
  const char* name;
  size_t ndim;
  const uint64_t* shape;
} laconic_tensor;

// All but timeout and threads must be the same on all ranks.
typedef struct laconic_options {
  size_t struct_size;
  const char* exchange;      // who talks to whom; NULL: "gather"
  const char* op;            // an operator's spec
  const char* memory;        // what a rank remembers; NULL: "none"
  const char* layout;        // how the model is cut; NULL: "tensor"
  const char* const* rules;  // operators for some tensors, as "name=*.bias,max=1024,op=identity"
  size_t rule_count;
  const laconic_tensor* tensors;
  size_t tensor_count;
  uint64_t seed;
  double timeout_seconds;  // of one step's waits; 0: 60
  unsigned threads;        // for compression; 0: 1
} laconic_options;

typedef struct laconic_aggregator laconic_aggregator;

// Copies transport and options; what transport->self points to must outlive the aggregator.
LACONIC_API laconic_status laconic_aggregator_create(const laconic_transport* transport,
                                                     const laconic_options* options,
                                                     laconic_aggregator** aggregator);
LACONIC_API void laconic_aggregator_free(laconic_aggregator* aggregator);

// What some methods need to know about the step.
typedef struct laconic_step {
  size_t struct_size;
  uint64_t step;
  float lr;
  const float* parameters;  // as many as the gradient has entries, or NULL
} laconic_step;

// What one step cost. Bytes are those that really crossed the transport.
typedef struct laconic_stats {
  size_t struct_size;
  uint64_t payload_bytes;  // of this rank's frame, without headers
  uint64_t wire_bytes;     // of this rank's frame
  uint64_t traffic_bytes;  // all this rank sent
  uint64_t dense_bytes;    // the gradient as float32
  double compress_seconds, exchange_seconds, decompress_seconds;
  double residual_norm;
  int finite;  // 0: some rank's gradient held NaN or Inf, and the step was rolled back
} laconic_stats;

// In: this rank's gradient; out: the mean over ranks, equal bit for bit on every rank. All ranks
// call it with the same step. When it fails, gradient and memory are as before. `stats` may be
// NULL.
LACONIC_API laconic_status laconic_average(laconic_aggregator* aggregator, float* gradient,
                                           size_t count, const laconic_step* step,
                                           laconic_stats* stats);

// Writes what this rank remembers into the caller's buffer, by tensor name. With a NULL buffer only
// *size is set: what is needed. When the capacity is too small, the result is LACONIC_USAGE and
// *size what is needed.
LACONIC_API laconic_status laconic_aggregator_save(const laconic_aggregator* aggregator,
                                                   void* buffer, size_t capacity, size_t* size);

// Takes over what was saved, perhaps under another layout. When it fails, the aggregator is as
// before.
LACONIC_API laconic_status laconic_aggregator_load(laconic_aggregator* aggregator,
                                                   const void* bytes, size_t size);

#ifdef __cplusplus
}
#endif
