// Everything the library has by name, read from its tables: what `list` and `demo` show.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/base/args.h"
#include "laconic/operators/stage.h"

namespace laconic::cli {

// Operators have more to say than the rest.
struct OperatorFacts {
  Role role;
  std::vector<std::string> examples;
  std::string spec;   // the chain whose traits these are
  std::size_t count;  // and for how many entries
  Traits traits;

  bool lossless() const { return role == Role::coder; }
};

struct Entry {
  std::string name, summary, paper;
  std::vector<Parameter> parameters;
  std::string bits = {};   // how many it writes; kBitsLetters says what the letters are
  std::string parts = {};  // of a recipe
  std::string json = {};   // a recipe whole
  std::optional<OperatorFacts> facts = {};
};

struct Group {
  std::string name;   // "operators"
  std::string title;  // what they are, in a few words
  std::vector<Entry> entries;
};

// Traits may depend on the count; they are shown for this one unless another is asked for.
inline constexpr std::size_t kNominalCount = 1'000'000;

inline constexpr std::string_view kBitsLetters =
    "n: entries of the slice (of the kept ones behind a selector); k: kept entries; P: what the "
    "index codec writes for k positions among n; s: the largest level; z: levels that are not 0; "
    "omega(g): length of the Elias omega code of g.";

std::vector<Group> catalogue(std::size_t count = kNominalCount);

}  // namespace laconic::cli
