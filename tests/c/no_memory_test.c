// A model larger than any memory: a status and a sentence, not the end of the program.
#include <stdio.h>
#include <string.h>

#include "laconic/laconic_c.h"

int main(void) {
  const uint64_t shape[] = {(uint64_t)1 << 47};
  const laconic_tensor tensor = {"w", 1, shape};
  const laconic_callbacks alone = {.struct_size = sizeof alone, .size = 1};
  const laconic_method_options options = {.struct_size = sizeof options,
                                          .recipe = "{\"name\": \"x\", \"memory\": \"feedback\"}",
                                          .tensors = &tensor,
                                          .tensor_count = 1};
  laconic_transport* transport = NULL;
  laconic_method* method = NULL;
  if (laconic_transport_from_callbacks(&alone, &transport)) return 1;
  const laconic_status status = laconic_method_create(transport, &options, &method);
  const char* error = laconic_last_error();
  if (status == LACONIC_SYSTEM && method == NULL && strcmp(error, "out of memory") == 0)
    return laconic_transport_free(transport), 0;
  fprintf(stderr, "status %d '%s', wanted %d 'out of memory'\n", (int)status, error,
          LACONIC_SYSTEM);
  return 1;
}
