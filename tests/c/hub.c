// Exchange by mutex and condition, as a C program would plug in its own messaging.
#include "hub.h"

#include <time.h>

struct Message {
  laconic_send send;
  int taken;
  Message* next;
};

static int give_up(Hub* hub, const char* why, int peer, const char* operation) {
  char text[200];
  snprintf(text, sizeof text, "%s rank %d in %s", why, peer, operation);
  laconic_set_error(text);
  hub->broken = 1;
  pthread_cond_broadcast(&hub->changed);
  return 1;
}

static int wait_for_change(Hub* hub, const struct timespec* until) {
  return hub->broken || pthread_cond_timedwait(&hub->changed, &hub->mutex, until) || hub->broken;
}

static void post(Port* port, Message* message) {
  Message** end = &port->hub->waiting[port->rank][message->send.to];
  while (*end) end = &(*end)->next;
  *end = message;
}

static int take(Port* port, const laconic_receive* receive, const struct timespec* until,
                const char* operation) {
  Hub* hub = port->hub;
  Message** front = &hub->waiting[receive->from][port->rank];
  while (!*front)
    if (wait_for_change(hub, until)) return give_up(hub, "nothing from", receive->from, operation);
  Message* message = *front;
  if (message->send.size != receive->size)
    return give_up(hub, "wrong size from", receive->from, operation);
  memcpy(receive->bytes, message->send.bytes, receive->size);
  *front = message->next;
  message->taken = 1;
  pthread_cond_broadcast(&hub->changed);
  return 0;
}

static int hub_exchange(void* self, const laconic_send* sends, size_t send_count,
                        const laconic_receive* receives, size_t receive_count,
                        double timeout_seconds, const char* operation) {
  Port* port = self;
  Hub* hub = port->hub;
  struct timespec until;
  int failed = 0;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += (time_t)timeout_seconds + 1;
  Message* messages = calloc(send_count + 1, sizeof *messages);
  pthread_mutex_lock(&hub->mutex);
  for (size_t i = 0; i < send_count; ++i) {
    messages[i].send = sends[i];
    post(port, &messages[i]);
  }
  pthread_cond_broadcast(&hub->changed);
  for (size_t i = 0; i < receive_count && !failed; ++i)
    failed = take(port, &receives[i], &until, operation);
  for (size_t i = 0; i < send_count && !failed; ++i)
    while (!failed && !messages[i].taken)
      if (wait_for_change(hub, &until))
        failed = give_up(hub, "nothing taken by", sends[i].to, operation);
  pthread_mutex_unlock(&hub->mutex);
  free(messages);  // after a failure nobody looks at them: the hub is broken
  return failed;
}

int hub_all_reduce(void* self, float* values, size_t count, double timeout, const char* operation) {
  Port* port = self;
  Hub* hub = port->hub;
  float* sum = calloc(count + 1, sizeof *sum);
  CHECK(timeout > 0 && strcmp(operation, "average of gradients") == 0);
  hub->values[port->rank] = values;
  pthread_barrier_wait(&hub->barrier);
  for (int rank = 0; rank < RANKS; ++rank)
    for (size_t i = 0; i < count; ++i) sum[i] += hub->values[rank][i];
  pthread_barrier_wait(&hub->barrier);
  memcpy(values, sum, count * sizeof *sum);
  free(sum);
  return 0;
}

static void hub_open(Hub* hub) {
  memset(hub, 0, sizeof *hub);
  pthread_mutex_init(&hub->mutex, NULL);
  pthread_cond_init(&hub->changed, NULL);
  pthread_barrier_init(&hub->barrier, NULL, RANKS);
}

static void hub_close(Hub* hub) {
  pthread_barrier_destroy(&hub->barrier);
  pthread_cond_destroy(&hub->changed);
  pthread_mutex_destroy(&hub->mutex);
}

void run_ranks(Rank ranks[], void* (*work)(void* rank), void* common) {
  pthread_t threads[RANKS];
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, RANKS);
  for (int i = 0; i < RANKS; ++i) {
    ranks[i].rank = i;
    ranks[i].barrier = &barrier;
    ranks[i].common = common;
    pthread_create(&threads[i], NULL, work, &ranks[i]);
  }
  for (int i = 0; i < RANKS; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < RANKS; ++i) laconic_transport_free(ranks[i].transport);
  pthread_barrier_destroy(&barrier);
}

void run_on_hub(void* (*work)(void* rank), void* common) {
  Hub hub;
  Port ports[RANKS];
  Rank ranks[RANKS];
  hub_open(&hub);
  for (int i = 0; i < RANKS; ++i) {
    ports[i] = (Port){&hub, i};
    const laconic_callbacks callbacks = {
        .struct_size = sizeof callbacks,
        .self = &ports[i],
        .rank = i,
        .size = RANKS,
        .exchange = hub_exchange,
    };
    ranks[i].callbacks = callbacks;
    CHECK_OK(laconic_transport_from_callbacks(&callbacks, &ranks[i].transport));
  }
  run_ranks(ranks, work, common);
  hub_close(&hub);
}

void run_in_group(void* (*work)(void* rank), void* common) {
  laconic_thread_group* group = NULL;
  Rank ranks[RANKS];
  memset(ranks, 0, sizeof ranks);
  CHECK_OK(laconic_thread_group_create(RANKS, &group));
  for (int i = 0; i < RANKS; ++i)
    CHECK_OK(laconic_thread_group_transport(group, i, &ranks[i].transport));
  laconic_thread_group_free(group);  // its ends go on
  run_ranks(ranks, work, common);
}
