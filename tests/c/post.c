// Messages that are started and asked after, as a C program would plug in its own messaging: those
// sent are copied and wait for whoever asks for them.
#include "hub.h"

typedef struct Letter {
  int from, to, tag;
  size_t size;
  struct Letter* next;
  unsigned char bytes[];
} Letter;

typedef struct Office {
  pthread_mutex_t mutex;
  Letter* letters;  // oldest first
} Office;

typedef struct Counter {
  Office* office;
  int rank;
} Counter;

// One receive that is not done.
typedef struct Asked {
  laconic_receive receive;
  int tag;
} Asked;

static void send_letter(Counter* counter, int tag, const laconic_send* send) {
  Letter* letter = malloc(sizeof *letter + send->size);
  *letter = (Letter){.from = counter->rank, .to = send->to, .tag = tag, .size = send->size};
  if (send->size) memcpy(letter->bytes, send->bytes, send->size);
  Letter** end = &counter->office->letters;
  while (*end) end = &(*end)->next;
  *end = letter;
}

static int post_start(void* self, int tag, const laconic_send* sends, size_t send_count,
                      const laconic_receive* receives, size_t receive_count, void** transfer) {
  Counter* counter = self;
  CHECK(tag >= 0 && tag <= 32767);
  CHECK(receive_count <= 1 && (send_count == 0 || receive_count == 0));
  pthread_mutex_lock(&counter->office->mutex);
  for (size_t i = 0; i < send_count; ++i) send_letter(counter, tag, &sends[i]);
  pthread_mutex_unlock(&counter->office->mutex);
  if (receive_count == 0) return 0;  // what was sent is done
  Asked* asked = malloc(sizeof *asked);
  *asked = (Asked){.receive = receives[0], .tag = tag};
  *transfer = asked;
  return 0;
}

static int post_test(void* self, void* transfer, int* done) {
  Counter* counter = self;
  Asked* asked = transfer;
  Office* office = counter->office;
  pthread_mutex_lock(&office->mutex);
  Letter** at = &office->letters;
  while (*at && !((*at)->from == asked->receive.from && (*at)->to == counter->rank &&
                  (*at)->tag == asked->tag))
    at = &(*at)->next;
  Letter* letter = *at;
  if (letter) {
    CHECK(letter->size == asked->receive.size);
    if (letter->size) memcpy(asked->receive.bytes, letter->bytes, letter->size);
    *at = letter->next;
    free(letter);
    *done = 1;
  }
  pthread_mutex_unlock(&office->mutex);
  if (*done) free(asked);
  return 0;
}

static void post_cancel(void* self, void* transfer) {
  (void)self;
  free(transfer);
}

void run_by_post(void* (*work)(void* rank), void* common) {
  Office office = {.letters = NULL};
  Counter counters[RANKS];
  Rank ranks[RANKS];
  pthread_mutex_init(&office.mutex, NULL);
  for (int i = 0; i < RANKS; ++i) {
    counters[i] = (Counter){&office, i};
    const laconic_callbacks callbacks = {
        .struct_size = sizeof callbacks,
        .self = &counters[i],
        .rank = i,
        .size = RANKS,
        .start = post_start,
        .test = post_test,
        .cancel = post_cancel,
    };
    ranks[i].callbacks = callbacks;
    CHECK_OK(laconic_transport_from_callbacks(&callbacks, &ranks[i].transport));
  }
  run_ranks(ranks, work, common);
  while (office.letters) {
    Letter* letter = office.letters;
    office.letters = letter->next;
    free(letter);
  }
  pthread_mutex_destroy(&office.mutex);
}
