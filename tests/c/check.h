// The few words these tests are written in. A failed check is printed and counted; the program goes
// on.
#pragma once

#define _POSIX_C_SOURCE 200809L  // threads and clocks in strict C99; before any other header

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "laconic/laconic_c.h"

void check_that(int holds, const char* what, const char* file, int line);
void check_status(laconic_status got, laconic_status want, const char* words, const char* what,
                  const char* file, int line);

#define CHECK(condition) check_that((condition) != 0, #condition, __FILE__, __LINE__)
#define CHECK_OK(call) check_status(call, LACONIC_OK, "", #call, __FILE__, __LINE__)
// The call fails with this status, and the thread's last error holds these words.
#define CHECK_FAILS(call, status, words) \
  check_status(call, status, words, #call, __FILE__, __LINE__)

// Bell-shaped values of very different sizes, the same on every machine.
void fill(float* x, size_t count, unsigned seed);

int same_bytes(const void* a, const void* b, size_t size);

laconic_operator* parse(const char* spec);
laconic_scratch* scratch_of(unsigned threads);

// A method; NULL, and a failed check, where it cannot be made.
laconic_method* method_on(laconic_transport* transport, const laconic_method_options* options);

// What laconic_method_save writes, with *size its size: to be freed.
void* saved(laconic_method* method, const float* const* parameters, size_t* size);

void test_library(void);
void test_operators(void);
void test_frames(void);
void test_average(void);
void test_steps(void);
void test_local(void);
void test_states(void);
void test_regroup(void);
void test_refusals(void);
void test_fork(void);
void test_sockets(void);
