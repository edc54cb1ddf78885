// What exchanges share.
#include "laconic/exchange/exchange.h"

namespace laconic {

void add_slices(FrameOut& frame, const Step& step, Slices slices, Memory& memory) {
  for (const std::size_t i : slices) {
    const Slice& slice = step.plan.layout[i];
    if (step.gradient.rests(slice))
      frame.rest(i);
    else
      step.sent[i] += frame.add(i, step.gradient.floats(slice), memory, step.scratch);
  }
}

}  // namespace laconic
