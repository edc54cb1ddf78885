// A cheaper operator of the same promise.
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

// Whether one keeps the other's promise on so many entries.
bool promises_as_much(const Traits& one, const Traits& other);

}  // namespace laconic
