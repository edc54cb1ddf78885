// What an operator promises, for people and for programs.
#pragma once

#include <string>

#include "cli/text.h"
#include "laconic/operators/stage.h"

namespace laconic::cli {

// "unbiased, random, omega 0.125, delta 0.875"
std::string describe(const Traits& traits);

// unbiased, random, shared, omega, delta, absolute.
Json to_json(const Traits& traits);

// What the words of `describe` mean, in one text.
inline constexpr std::string_view kTraitWords =
    "unbiased: the mean of what is decoded is the array; random: each rank draws for itself, "
    "shared: "
    "all ranks draw the same; omega: the error's mean square is at most omega |x|^2, that of a "
    "mean "
    "over n ranks omega/n, or omega again where draws are shared; delta: it is at "
    "most (1 - delta) |x|^2, plus the square of what each entry may lose.";

}  // namespace laconic::cli
