// How many bits each stage and codec writes, as one line of text.
#pragma once

#include <string_view>

namespace laconic::cli {

// By the name of a group of the catalogue and of an entry; empty for what has no formula.
std::string_view bits_formula(std::string_view group, std::string_view name);

// What the letters in formulas stand for.
inline constexpr std::string_view kFormulaLetters =
    "n: entries of the slice (of the kept ones behind a selector); k: kept entries; P: what the "
    "index codec writes for k positions among n; s: the largest level; z: levels that are not 0; "
    "omega(g): length of the Elias omega code of g.";

}  // namespace laconic::cli
