// After a fork the child's copies of handles refuse, and freeing them does nothing.
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

static const uint64_t shape[] = {4};
static const laconic_tensor tensors[] = {{"w", 1, shape}};

static int refused(laconic_status status) {
  return status == LACONIC_USAGE && strstr(laconic_last_error(), "forked") != NULL;
}

static int all_refused(laconic_thread_group* group, laconic_transport* transport,
                       laconic_method* method, laconic_scratch* scratch) {
  const laconic_step step = {.struct_size = sizeof step};
  const laconic_method_options options = {
      .struct_size = sizeof options, .recipe = "natural", .tensors = tensors, .tensor_count = 1};
  float gradient[4] = {0};
  const laconic_keys keys = {0};
  laconic_method* made = NULL;
  laconic_transport* end = NULL;
  laconic_operator* op = NULL;
  int good = refused(laconic_average(method, gradient, 4, &step, NULL)) &&
             refused(laconic_begin(method, &step)) && refused(laconic_finish(method, NULL)) &&
             refused(laconic_method_create(transport, &options, &made)) &&
             refused(laconic_thread_group_transport(group, 1, &end)) &&
             laconic_operator_parse("natural", &op) == LACONIC_OK &&
             refused(laconic_check(op, gradient, 4, 4, &keys, scratch));
  laconic_operator_free(op);
  laconic_method_free(method);
  laconic_transport_free(transport);
  laconic_thread_group_free(group);
  laconic_scratch_free(scratch);
  return good;
}

void test_fork(void) {
  laconic_thread_group* group = NULL;
  laconic_transport* transport = NULL;
  laconic_scratch* scratch = scratch_of(2);
  const laconic_callbacks alone = {.struct_size = sizeof alone, .size = 1};
  const laconic_method_options options = {
      .struct_size = sizeof options, .recipe = "natural", .tensors = tensors, .tensor_count = 1};
  CHECK_OK(laconic_thread_group_create(2, &group));
  CHECK_OK(laconic_transport_from_callbacks(&alone, &transport));
  laconic_method* method = method_on(transport, &options);
  const pid_t child = fork();
  if (child == 0) _exit(all_refused(group, transport, method, scratch) ? 0 : 1);
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const laconic_step step = {.struct_size = sizeof step};
  float gradient[4] = {1};
  CHECK_OK(laconic_average(method, gradient, 4, &step, NULL));
  laconic_method_free(method);
  laconic_transport_free(transport);
  laconic_thread_group_free(group);
  laconic_scratch_free(scratch);
}
