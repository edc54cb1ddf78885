// A transport written in C: ranks as threads that leave messages in one guarded place.
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

void hub_open(Hub* hub);
void hub_close(Hub* hub);
laconic_transport hub_transport(Port* port);
int hub_all_reduce(void* self, float* values, size_t count, double timeout, const char* operation);

// Runs `work` as RANKS threads; `common` is what they share.
typedef struct Rank {
  laconic_transport transport;
  void* common;
} Rank;

void run_ranks(void* (*work)(void* rank), void* common);
