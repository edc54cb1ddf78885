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
// In training, a method does this for every slice and every rank over a transport, part by part
// while the rest of the gradient is still being computed: see laconic_begin.
//
// Rules for all functions. Whoever creates a handle frees it; freeing NULL does nothing. Handles
// written through an out pointer are NULL when the function fails. Texts are UTF-8 and end in a
// zero byte; those given to a function are only read during the call, and so are arrays unless said
// otherwise. No pointer may be NULL unless said otherwise; a NULL array of 0 entries is fine. A
// handle is used by one thread at a time, except operators and frames, which never change, and
// where said otherwise. Structs with a struct_size must have it set to their sizeof and every field
// they do not use set to 0: fields are only ever added at the end, so older programs keep working.
// After a fork the child can use operators and frames; other handles of its parent's answer
// LACONIC_USAGE there, and freeing them does nothing.
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

// The rank at fault of the calling thread's last failure; -1: not known, or nobody's.
LACONIC_API int laconic_last_rank(void);

// Sets the calling thread's sentence: for callbacks, before they return a failure. NULL clears it.
LACONIC_API void laconic_set_error(const char* text);

// ---- Versions ----

// The interface of this header. It changes only when a program must be compiled again.
#define LACONIC_ABI 2

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
  LACONIC_RECIPES = 7,   // the built-in ones: whole methods by name
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

// LACONIC_DATA unless the bytes are a whole, valid section of `count` entries, written with these
// keys.
LACONIC_API laconic_status laconic_check(const laconic_operator* op, const void* bytes, size_t size,
                                         size_t count, const laconic_keys* keys,
                                         laconic_scratch* scratch);

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

// ---- Recipes: whole methods as text ----

// In all functions a recipe is the name of a built-in one (LACONIC_RECIPES), the name of a file
// that ends in .json, or, when it begins with '{', JSON text such as
//   {"name": "mine", "op": "topk:0.01+qsgd:4", "memory": "feedback", "exchange": "sharded"}

// Writes a recipe as JSON, with everything that may be left out, and a zero byte into the caller's
// buffer. With a NULL buffer only *size is set: what is needed. When the capacity is too small, the
// result is LACONIC_USAGE and *size what is needed.
LACONIC_API laconic_status laconic_recipe_json(const char* recipe, char* buffer, size_t capacity,
                                               size_t* size);

// LACONIC_USAGE names what is wrong with a recipe and what is allowed.
LACONIC_API laconic_status laconic_recipe_check(const char* recipe);

// Foresees bytes, step times and errors of recipes for a model, a number of workers and a link.
// `request` is a JSON object such as {"model": "resnet50", "workers": 16, "link": "100mbit,1ms",
// "compute_seconds": 0.4}; docs/plan.md has its keys and those of the JSON in *report, which stays
// until the thread's next call of this function. Kernels are measured: it takes seconds.
LACONIC_API laconic_status laconic_plan(const char* request, const char** report);

// ---- Transports: how ranks reach each other ----

// One rank's end. It must outlive the methods made on it; several may use it if their steps do not
// overlap. Freeing it is leaving. Whoever waits for a rank that leaves, or whose step fails, is
// told at once; but over an exchange by callback, which cannot be interrupted, only by the
// time-out.
typedef struct laconic_transport laconic_transport;

LACONIC_API void laconic_transport_free(laconic_transport* transport);

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

// What a program provides that has its own messaging. Callbacks run one at a time: in the thread
// that creates a method, and in steps in the engine's (laconic_engine). They return 0 only when all
// is done; any other number fails the step with LACONIC_TRANSPORT and the sentence left by
// laconic_set_error. They must give up after timeout_seconds; `operation` says for what they wait,
// such as "average of gradients". After one has failed, steps can only go on if each message
// arrived whole or not at all.
typedef struct laconic_callbacks {
  size_t struct_size;
  void* self;  // handed to the callbacks; outlives the transport
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
  // All three, or NULL: messages that nobody waits for within a callback. Parts of a step then
  // overlap, errors reach all ranks at once, and the two above are not called. `start` begins sends
  // or receives and returns at once; *transfer is what stands for them, NULL if they are done
  // already. Messages of different tags, 0 to 32767, never meet; those of one tag from one rank to
  // another arrive in the order started. `test` sets *done when all is done; then, and when it
  // fails, the transfer is gone. `cancel` takes back what is not done; it comes when the transport
  // is freed. The memory of messages is the program's from start until their transfer is gone. A
  // rank from which nothing can be received any more has left.
  int (*start)(void* self, int tag, const laconic_send* sends, size_t send_count,
               const laconic_receive* receives, size_t receive_count, void** transfer);
  int (*test)(void* self, void* transfer, int* done);
  void (*cancel)(void* self, void* transfer);
} laconic_callbacks;

// Copies the struct.
LACONIC_API laconic_status laconic_transport_from_callbacks(const laconic_callbacks* callbacks,
                                                            laconic_transport** transport);

// Ranks as threads of one process: for tests and for training on one machine.
typedef struct laconic_thread_group laconic_thread_group;

LACONIC_API laconic_status laconic_thread_group_create(int size, laconic_thread_group** group);

// One rank's end, which can be had once. Different ranks' may be asked for at the same time. It
// does not need the group any more.
LACONIC_API laconic_status laconic_thread_group_transport(laconic_thread_group* group, int rank,
                                                          laconic_transport** transport);

// Ranks whose transports were not asked for have left.
LACONIC_API void laconic_thread_group_free(laconic_thread_group* group);

// Ranks as processes of MPI, over a duplicate of a communicator given by MPI_Comm_c2f(comm): all
// its ranks call this, and wait for each other up to timeout_seconds (0: 60). MPI is the caller's
// to start, with MPI_THREAD_SERIALIZED unless the methods' engine is LACONIC_ENGINE_CALLERS, and to
// end after the transport is freed. LACONIC_USAGE where the library is built without MPI.
LACONIC_API laconic_status laconic_mpi_transport(int fortran_communicator, double timeout_seconds,
                                                 laconic_transport** transport);

// Ranks as processes over stream sockets, TCP or UNIX, that the caller has connected:
// descriptors[i] leads to rank i, -1 for this rank's own. They are taken over, and closed by the
// transport, when this succeeds; else they stay the caller's.
LACONIC_API laconic_status laconic_sockets_transport(int rank, int size, const int* descriptors,
                                                     laconic_transport** transport);

// Ranks as processes that find each other: rank 0 listens at host:port (NULL: 127.0.0.1), the
// others go there, and every rank listens at the address by which it reaches rank 0 until all have
// come. token is what all ranks of a run share, a job's number for example (NULL: none); others are
// turned away. All ranks call this, and wait for each other up to timeout_seconds (0: 60).
LACONIC_API laconic_status laconic_sockets_join(int rank, int size, const char* host, int port,
                                                const char* token, double timeout_seconds,
                                                laconic_transport** transport);

// ---- Methods: a recipe at work on one rank ----

// One tensor of the model. In all functions "per tensor" means an array of as many pointers as the
// model has tensors, in the order given here.
typedef struct laconic_tensor {
  const char* name;  // no two have the same
  size_t ndim;
  const uint64_t* shape;
} laconic_tensor;

// Who moves what was submitted.
typedef enum laconic_engine {
  LACONIC_ENGINE_THREAD = 0,   // a thread of the method's own, while the caller computes
  LACONIC_ENGINE_CALLERS = 1,  // whoever calls laconic_submit, _poll, _wait and _finish, meanwhile
} laconic_engine;

// All but timeout, threads and engine must be the same on all ranks.
typedef struct laconic_method_options {
  size_t struct_size;
  const char* recipe;
  const laconic_tensor* tensors;
  size_t tensor_count;
  // The parameters before the first step, per tensor. NULL: not compared by the ranks; local steps
  // (a delay or an outer optimiser) need them.
  const float* const* start;
  uint64_t seed;
  double timeout_seconds;  // of a transfer; 0: 60
  unsigned threads;        // for compression; 0: 1. How many there are changes no byte.
  int engine;              // a laconic_engine
  size_t unit_bytes;       // parts with less gradient travel with the next one; 0: 2^20
  // Whether steps may go plain, in 16 bits or by another operator where that is faster: "on",
  // "off" (bytes then do not depend on what steps take), "report", "replay=FILE". NULL: "on" over
  // sockets and MPI, where ranks are processes, else "off". The same on all ranks; of no effect on
  // local steps and mixers.
  const char* guard;
} laconic_method_options;

typedef struct laconic_method laconic_method;

// All ranks call it, and compare what they were given: where they differ, all get LACONIC_USAGE and
// laconic_last_rank says who is unlike rank 0. Where one is given what cannot be, the others get
// its sentence. All may then try again. Copies the options.
LACONIC_API laconic_status laconic_method_create(laconic_transport* transport,
                                                 const laconic_method_options* options,
                                                 laconic_method** method);

// Within a step it ends the step on all ranks.
LACONIC_API void laconic_method_free(laconic_method* method);

// Goes on over another transport, of which this is also the same rank of as many, with all that is
// remembered. All ranks call it, between steps. When it fails, the method is as before. With
// fewer: laconic_method_regroup; with any other number: laconic_states_redistribute.
LACONIC_API laconic_status laconic_method_set_transport(laconic_method* method,
                                                        laconic_transport* transport);

// After a rank was lost: the others go on without it, in the same process, over a transport that
// connects just them, in the order of their ranks. All of them call it, with no step open; the
// transport before may then be freed. It settles the last step (laconic_settle) and goes on with
// what each has remembered; what the lost rank remembered is lost. *outcome says what has become of
// the last step, or round of local steps: where it had failed and is LACONIC_COMMITTED now, others
// have made it, and the means stand where the gradients stood (the parameters, per tensor, are
// those after the round); any other step that failed is to be made again. Where gradients are
// averaged parameters may be NULL. LACONIC_USAGE for mixers, whose ranks have places in a graph.
// When it fails, the method is as before, and it may be tried again among fewer.
LACONIC_API laconic_status laconic_method_regroup(laconic_method* method, laconic_transport* among,
                                                  float* const* parameters, int* outcome);

// 1: gradients are averaged, by laconic_begin ... laconic_finish or laconic_average. 0: they stay
// with their rank, as with local steps and mixers, and there are laconic_before_update and
// laconic_after_update. Calling the others is LACONIC_USAGE.
LACONIC_API laconic_status laconic_averages_gradients(const laconic_method* method, int* averages);

// Whether all ranks hold the same parameters now, bit for bit.
LACONIC_API laconic_status laconic_replicas_equal(const laconic_method* method, int* equal);

// Length of what is still owed to the model. A pass over it; not within a step.
LACONIC_API laconic_status laconic_residual_norm(const laconic_method* method, double* norm);

// ---- Steps ----

// What methods are told about a step. step, scale and the recipe's use of lr are the same on all
// ranks.
typedef struct laconic_step {
  size_t struct_size;
  uint64_t step;   // the host's number; random draws are keyed by it
  float lr;        // the optimiser's, for memories that need it
  float scale;     // what the gradients were multiplied by; 0: 1. What is remembered is unscaled.
  uint32_t flags;  // the host's own; all ranks' together come back in the stats
  // Per tensor or NULL, as of this step, for memories that look at them (gmc). The arrays stay
  // until the step ends. Where gradients stay with their rank this is not looked at.
  const float* const* parameters;
  // The optimiser's, per tensor or NULL: only in laconic_after_update and laconic_finish_round, for
  // memories that mask a rank's own.
  float* const* momentum;
  // 1, on all ranks: floats go as they are, and with them all that is owed; nothing is owed after
  // it. After the last step, with gradients of zeros in laconic_average or laconic_submit, whose
  // means then are for one more update, or in laconic_finish_round. Else 0.
  int plain;
} laconic_step;

// What one step cost. Bytes are those that really crossed the transport.
typedef struct laconic_stats {
  size_t struct_size;
  uint64_t payload_bytes;  // of this rank's frames, without headers
  uint64_t wire_bytes;     // of this rank's frames
  uint64_t traffic_bytes;  // all this rank sent, heads of messages and the vote included
  uint64_t rounds;         // how often it waited for others
  uint64_t dense_bytes;    // the gradient as it is
  uint64_t up_bytes;       // of frames on their way to the mean, this rank's own
  uint64_t down_bytes;     // of frames that brought this rank the mean
  uint64_t vote_bytes;     // of the traffic, what the vote took
  double compress_seconds, decompress_seconds;  // of one core
  double exchange_seconds;                      // with nothing to do but wait for others
  double exposed_seconds;                       // how long callers were held up by all of this
  double update_seconds;                        // of the outer optimiser
  uint32_t flags;                               // all ranks' laconic_step flags together
  int finite;  // 0: some rank's gradient held NaN or Inf, and the step was rolled back
  // Of the guard: the lane that this step took and the one it would take (0: the recipe's, 1: 16
  // bits, 2: plain floats, 3: a cheaper operator of the same promise, 4: one of fewer bytes), and
  // what that saves of a step, foreseen and measured.
  int lane, advised_lane;
  double predicted_gain, measured_gain;
} laconic_stats;

// A step of a method that averages gradients:
//
//   laconic_begin(method, &step);
//   while backward computes, from any thread, as soon as gradients are final:
//     laconic_submit(method, &tensor, &gradient, NULL, 1, LACONIC_FLOAT32, NULL);
//   laconic_finish(method, &stats);       the means stand where the gradients stood
//   if (stats.finite) update the parameters
//   laconic_commit(method);               or laconic_rollback, or the next laconic_begin, which
//   commits
//
// When a function of these fails with LACONIC_DATA, LACONIC_SYSTEM or LACONIC_TRANSPORT, the step
// has ended on all ranks: what is remembered is as before, the gradients are undefined, and after
// laconic_finish, which fails with the same sentence, laconic_begin tries again.

// Starts a step, which all ranks do with the same step->step. A step before it that ended well and
// of which nothing was said is committed.
LACONIC_API laconic_status laconic_begin(laconic_method* method, const laconic_step* step);

// Hands over a part: `count` tensors, by their places in the options, with one array each of this
// laconic_dtype (LACONIC_FLOAT32, LACONIC_FLOAT16 or LACONIC_BFLOAT16). All ranks submit the same
// tensors in the same order. The arrays are the method's until the step ends, and the means will
// stand there. Where rests (NULL: nowhere) is not 0, the tensor's gradient is all zeros and its
// memory stays as it is; a gradient found to be all zeros rests too, so that nothing is sent, and
// lost, of a tensor that no rank has used. Returns at once with the part's number, counted from 0;
// part may be NULL. From any thread.
LACONIC_API laconic_status laconic_submit(laconic_method* method, const size_t* tensors,
                                          void* const* data, const unsigned char* rests,
                                          size_t count, int dtype, size_t* part);

// Whether a part's means stand in its arrays. They are provisional until laconic_finish has
// returned: no optimiser may use them. The part that completes the model is done only after the
// vote. Fails with what ended the step. From any thread.
LACONIC_API laconic_status laconic_poll(laconic_method* method, size_t part, int* done);

// Waits until then, or for so many seconds (0 and below: no limit), and says which in *done.
// LACONIC_USAGE when it would wait for tensors not yet submitted: those of the part's slices, which
// it names, those of the next parts, with which it travels below unit_bytes, or all where the
// memory asks for the gradient's norm (dgc:clip). From any thread.
LACONIC_API laconic_status laconic_wait(laconic_method* method, size_t part, double seconds,
                                        int* done);

// Ends the step on all ranks or on none. Tensors that were not submitted rest, if on all ranks.
// When some rank's gradient holds NaN or Inf, so does the mean, on every rank, stats->finite is 0
// and the step is rolled back. stats may be NULL.
LACONIC_API laconic_status laconic_finish(laconic_method* method, laconic_stats* stats);

// After laconic_finish, before the next laconic_begin, the same on all ranks: what the step has
// brought is remembered, or the step is as if it had not been.
LACONIC_API laconic_status laconic_commit(laconic_method* method);
LACONIC_API laconic_status laconic_rollback(laconic_method* method);

// Ends the step under way on all ranks, whose laconic_finish then fails with this reason. From any
// thread. Without a step it does nothing.
LACONIC_API laconic_status laconic_abort(laconic_method* method, const char* why);

// What became of the last step.
typedef enum laconic_outcomes {
  LACONIC_NONE = 0,
  LACONIC_COMMITTED = 1,
  LACONIC_ROLLED_BACK = 2,  // also: ended well, and not committed yet
  LACONIC_IN_DOUBT = 3,     // this rank cannot know whether the others went on; no step can follow
} laconic_outcomes;

LACONIC_API laconic_status laconic_outcome(const laconic_method* method, int* outcome);

// After a rank was lost, before the others go on without it: all of them call it over a transport
// that connects just them. A step that some are in doubt about is committed by all of those, if
// anybody has committed it, else by nobody; a step that ended well and of which nothing was said is
// committed. *outcome says what the last step has become here. A part of
// laconic_method_regroup, for hosts that go on in another way.
LACONIC_API laconic_status laconic_settle(laconic_method* method, laconic_transport* among,
                                          int* outcome);

// What one tensor cost this rank in the last step.
typedef struct laconic_tensor_cost {
  size_t struct_size;
  uint64_t payload_bytes;  // what a slice of several tensors took is shared by entries
  uint64_t dense_bytes;    // the gradient as it is
  int rests;               // its gradient was all zeros, or it was not submitted
} laconic_tensor_cost;

// After laconic_finish, until the next laconic_begin.
LACONIC_API laconic_status laconic_tensor_stats(const laconic_method* method, size_t tensor,
                                                laconic_tensor_cost* cost);

// A whole step in one call. In: this rank's gradient, float32, the tensors one after the other;
// out: the mean over ranks, equal bit for bit on every rank, and the step is committed. When it
// fails, the gradient is undefined. stats may be NULL.
LACONIC_API laconic_status laconic_average(laconic_method* method, float* gradient, size_t count,
                                           const laconic_step* step, laconic_stats* stats);

// ---- Steps of methods whose gradients stay with their rank: local steps and mixers ----
//
//   laconic_before_update(method, parameters, gradients, &step, &stats);
//   if (stats.finite) update the parameters with this rank's own optimiser
//   step.momentum = the optimiser's;
//   laconic_after_update(method, parameters, &step, NULL);
//   if (laconic_set_back(...) says so) the optimiser begins anew

// In: this rank's parameters and its gradients there, per tensor. Out: what the optimiser is to
// work with. When stats->finite is 0 it must not: this rank's gradient holds NaN or Inf. When it
// fails, all is as before, and it may be called again. stats may be NULL.
LACONIC_API laconic_status laconic_before_update(laconic_method* method, float* const* parameters,
                                                 float* const* gradients, const laconic_step* step,
                                                 laconic_stats* stats);

// Once in every step, after the optimiser's update or what would have been one. When it fails, all
// is as before, and it may be called again without another update. stats may be NULL.
LACONIC_API laconic_status laconic_after_update(laconic_method* method, float* const* parameters,
                                                const laconic_step* step, laconic_stats* stats);

// After the last step: ends a round of local steps that is under way. stats may be NULL.
LACONIC_API laconic_status laconic_finish_round(laconic_method* method, float* const* parameters,
                                                const laconic_step* step, laconic_stats* stats);

// Whether the last round was undone, because some rank's parameters had run away to Inf or NaN. The
// optimiser must then begin anew, on all ranks: what blew the parameters up is in its moments.
LACONIC_API laconic_status laconic_set_back(const laconic_method* method, int* set_back);

// ---- What methods remember ----

// Writes all of this rank's method into the caller's buffer, between steps: the parameters, per
// tensor, and what is remembered, by tensor name. Where gradients are averaged parameters may be
// NULL, and are left to the host. With a NULL buffer only *size is set: what is needed. When the
// capacity is too small, the result is LACONIC_USAGE and *size what is needed.
LACONIC_API laconic_status laconic_method_save(laconic_method* method,
                                               const float* const* parameters, void* buffer,
                                               size_t capacity, size_t* size);

// For laconic_method_load, of what is remembered:
enum {
  LACONIC_MISSING_IS_ZERO = 1,  // what was not saved is zero; what ranks have in common stays
  LACONIC_UNKNOWN_IGNORED = 2,  // what is not remembered here is left out
};

// Takes over what was saved, perhaps under another layout, and writes the parameters, per tensor.
// NULL, where gradients are averaged: they are left to the host. When it fails, all is as before:
// LACONIC_DATA says what does not fit.
LACONIC_API laconic_status laconic_method_load(laconic_method* method, const void* bytes,
                                               size_t size, int flags, float* const* parameters);

// One array of what is remembered, such as "feedback/conv1.weight", between steps. LACONIC_USAGE
// names all there are. Each takes a pass over everything remembered.
LACONIC_API laconic_status laconic_state_get(const laconic_method* method, const char* name,
                                             float* values, size_t count);
LACONIC_API laconic_status laconic_state_set(laconic_method* method, const char* name,
                                             const float* values, size_t count);

// Given what laconic_method_save wrote on each of `count` ranks, in rank order: what rank `rank` of
// `ranks` is to load instead. Debts stay whole, rank i's with rank i modulo `ranks`. LACONIC_USAGE
// where ranks have parameters of their own. The buffer is as in laconic_method_save.
LACONIC_API laconic_status laconic_states_redistribute(const void* const* states,
                                                       const size_t* sizes, size_t count, int ranks,
                                                       int rank, void* buffer, size_t capacity,
                                                       size_t* size);

#ifdef __cplusplus
}
#endif
