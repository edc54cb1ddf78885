// A cheaper or a smaller operator of the same promise.
#pragma once

#include "laconic/operators/operator.h"

namespace laconic {

// Of the chains of fixed width that promise what `op` does, or more, on slices of these counts, the
// one with the fewest bytes, if it is below 16 bits an entry: its own quantiser without a coder or
// with a code of fixed width, or any other quantiser that a stage gives as an example. None where
// `op` itself is of fixed width, or sends some entries only: what is coded of those is little
// beside choosing them. Example: lighter(parse_operator("natural+entropy"), counts) is natural
// without its coder.
std::optional<Operator> lighter(const Operator& op, std::span<const std::size_t> counts);

// Of the chains that promise what `op` does, or more, the one with the fewest bytes of usual
// entries, if these are three quarters of `op`'s or less: its own quantiser, or any other that a
// stage gives as an example, with every coder. A promise is of the worst case: of usual entries it
// may lose twice as much as `op` does and no more. It draws from strata if `op` does, so that the
// mean over ranks is as good, and codes no symbols one by one. None where `op` sends some entries
// only. Example: tighter(parse_operator("natural"), counts) is grid.
std::optional<Operator> tighter(const Operator& op, std::span<const std::size_t> counts);

// Whether one keeps the other's promise on so many entries.
bool promises_as_much(const Traits& one, const Traits& other);

// What sections of so many entries take and lose if these are normally distributed: the same
// wherever it is asked. Of many entries by a sample.
struct Usual {
  double bytes = 0;
  double error = 0;  // |C(x) - x|^2, of entries with variance 1
};
Usual usual_of(const Operator& op, std::span<const std::size_t> counts);

}  // namespace laconic
