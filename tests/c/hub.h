// A transport written in C, ranks as threads that leave messages in one guarded place, and what
// runs tests as ranks over it or over the library's own threads.
#pragma once

#include "check.h"

#include <pthread.h>

enum { RANKS = 4 };

typedef struct Message Message;

typedef struct Hub {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  pthread_barrier_t barrier;
  Message* waiting[RANKS][RANKS];  // by sender and receiver, oldest first
  const float* values[RANKS];      // what each rank adds in an all-reduce
  int broken;                      // somebody gave up: nobody waits any more
} Hub;

// One rank's end.
typedef struct Port {
  Hub* hub;
  int rank;
} Port;

int hub_all_reduce(void* self, float* values, size_t count, double timeout, const char* operation);

// A rank of a test. What it frees itself it sets to NULL.
typedef struct Rank {
  int rank;
  laconic_transport* transport;
  laconic_callbacks callbacks;  // behind the transport; of the hub only
  pthread_barrier_t* barrier;   // of all ranks
  void* common;                 // what they share
} Rank;

// Run `work` as RANKS threads over the hub, by post (post.c), and over a thread group.
void run_ranks(Rank ranks[], void* (*work)(void* rank), void* common);
void run_on_hub(void* (*work)(void* rank), void* common);
void run_by_post(void* (*work)(void* rank), void* common);
void run_in_group(void* (*work)(void* rank), void* common);
