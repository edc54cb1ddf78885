// Ranks over sockets: those the host has connected, and ranks that find each other.
#include "check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

enum { COUNT = 1000 };

typedef struct Rank {
  int rank;
  laconic_transport* transport;
  int port;
} Rank;

// The mean of the ranks' gradients.
static void average(const Rank* rank) {
  static const uint64_t shape[] = {COUNT};
  static const laconic_tensor tensor = {"w", 1, shape};
  const laconic_method_options options = {.struct_size = sizeof options,
                                          .recipe = "{\"name\": \"plain\"}",
                                          .tensors = &tensor,
                                          .tensor_count = 1,
                                          .timeout_seconds = 3600,
                                          .engine = LACONIC_ENGINE_THREAD,
                                          .guard = "off"};
  const laconic_step step = {.struct_size = sizeof step};
  float gradient[COUNT];
  for (int i = 0; i < COUNT; ++i) gradient[i] = (float)(i * rank->rank);
  laconic_method* method = method_on(rank->transport, &options);
  CHECK_OK(laconic_average(method, gradient, COUNT, &step, NULL));
  for (int i = 0; i < COUNT; ++i) CHECK(gradient[i] == (float)i / 2);
  laconic_method_free(method);
  laconic_transport_free(rank->transport);
}

static void* run_connected(void* self) {
  average(self);
  return NULL;
}

static void* run_joined(void* self) {
  Rank* rank = self;
  CHECK_OK(laconic_sockets_join(rank->rank, 2, NULL, rank->port, "job", 3600, &rank->transport));
  average(rank);
  return NULL;
}

static void on_both(void* (*run)(void*), Rank* ranks) {
  pthread_t other;
  CHECK(pthread_create(&other, NULL, run, &ranks[1]) == 0);
  run(&ranks[0]);
  pthread_join(other, NULL);
}

static int free_port(void) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t length = sizeof address;
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(bind(listener, (struct sockaddr*)&address, length) == 0);
  CHECK(getsockname(listener, (struct sockaddr*)&address, &length) == 0);
  close(listener);
  return ntohs(address.sin_port);
}

static void test_refused(void) {
  laconic_transport* transport = NULL;
  const int alone[] = {-1}, wrong[] = {-1, 9999};
  CHECK_OK(laconic_sockets_transport(0, 1, alone, &transport));
  laconic_transport_free(transport);
  CHECK_FAILS(laconic_sockets_transport(0, 2, NULL, &transport), LACONIC_USAGE, "'descriptors'");
  CHECK_FAILS(laconic_sockets_transport(0, -2, alone, &transport), LACONIC_USAGE, "rank 0 of -2");
  CHECK_FAILS(laconic_sockets_transport(0, 2, wrong, &transport), LACONIC_USAGE,
              "descriptor 9999 for rank 1; allowed: a connected stream socket");
  CHECK_FAILS(laconic_sockets_join(0, 2, NULL, 0, NULL, 1, &transport), LACONIC_USAGE, "port 0");
  CHECK_FAILS(laconic_sockets_join(1, 2, "127.0.0.1", free_port(), NULL, 0.1, &transport),
              LACONIC_TRANSPORT, "rank 0 cannot be reached at 127.0.0.1");
  CHECK(laconic_last_rank() == 0);
}

void test_sockets(void) {
  int pair[2] = {-1, -1};
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  const int descriptors[2][2] = {{-1, pair[0]}, {pair[1], -1}};
  Rank ranks[2] = {{.rank = 0}, {.rank = 1}};
  for (int i = 0; i < 2; ++i)
    CHECK_OK(laconic_sockets_transport(i, 2, descriptors[i], &ranks[i].transport));
  on_both(run_connected, ranks);
  ranks[0].port = ranks[1].port = free_port();
  on_both(run_joined, ranks);
  test_refused();
}
