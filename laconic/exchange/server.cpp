// server: all frames go to rank 0, which adds them up and sends one compressed sum back to all. Two
// operators and two memories: one for each direction.
#include "laconic/exchange/two_way.h"

namespace laconic {
namespace {

const RegisterExchange server{{
    .name = "server",
    .summary =
        "Frames to rank 0 and one compressed sum back, each direction with an operator and a "
        "memory of its own.",
    .paper = "Horvath et al., Natural Compression (arXiv 1905.10988), algorithm 1; Dutta et al. "
             "(arXiv 1911.08250), algorithm 1; Sattler et al. (arXiv 1903.02891), STC",
    .parameters = {},
    .follows_warmup = true,
    .has_way_back = true,
    .make = [](const Setup& setup, const Args&) -> std::unique_ptr<Exchange> {
      return make_two_way(setup, one_owner(count_of(setup.model)), setup.down_memory);
    },
}};

const RegisterForesight foresight{{
    .name = "server",
    .make = [](Rehearsal& rehearsal, const Args&) -> std::unique_ptr<Foresight> {
      const Layout& layout = rehearsal.plan.layout;
      return foresee_two_way(
          rehearsal, one_owner(layout.empty() ? 0 : layout.back().offset + layout.back().count));
    },
}};

}  // namespace
}  // namespace laconic
