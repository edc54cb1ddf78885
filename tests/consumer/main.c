/* What a C user writes first: an array through a frame and back. */
#include <laconic/laconic_c.h>
#include <stdio.h>

int main(void) {
  const float x[4] = {0.25f, -3.0f, 0.0f, 8.0f};
  float y[4] = {0};
  unsigned char bytes[256];
  size_t size = 0;
  int finite = 0;
  laconic_operator* op = NULL;
  laconic_scratch* scratch = NULL;
  laconic_frame* frame = NULL;
  laconic_status status = laconic_operator_parse("natural+entropy", &op);
  if (!status) status = laconic_scratch_create(1, &scratch);
  if (!status)
    status = laconic_frame_write(op, x, 4, NULL, bytes, sizeof bytes, &size, &finite, scratch);
  if (!status) status = laconic_frame_read(bytes, size, 4, &frame);
  if (!status) status = laconic_frame_add(frame, 1.0f, y, 4, scratch);
  if (status) fprintf(stderr, "%s\n", laconic_last_error());
  laconic_frame_free(frame);
  laconic_scratch_free(scratch);
  laconic_operator_free(op);
  return status || laconic_abi() != LACONIC_ABI || y[0] != 0.25f || y[2] != 0.0f || y[3] != 8.0f;
}
