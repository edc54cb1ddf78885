// A model larger than any memory: a status and a sentence, not the end of the program.
#include <stdio.h>
#include <string.h>

#include "laconic/laconic_c.h"

int main(void) {
  const uint64_t shape[] = {(uint64_t)1 << 47};
  const laconic_tensor tensor = {"w", 1, shape};
  const laconic_transport transport = {.struct_size = sizeof transport, .size = 1};
  const laconic_options options = {.struct_size = sizeof options,
                                   .op = "identity",
                                   .memory = "feedback",
                                   .tensors = &tensor,
                                   .tensor_count = 1};
  laconic_aggregator* aggregator = NULL;
  const laconic_status status = laconic_aggregator_create(&transport, &options, &aggregator);
  const char* error = laconic_last_error();
  if (status == LACONIC_SYSTEM && aggregator == NULL && strcmp(error, "out of memory") == 0)
    return 0;
  fprintf(stderr, "status %d '%s', wanted %d 'out of memory'\n", (int)status, error,
          LACONIC_SYSTEM);
  return 1;
}
