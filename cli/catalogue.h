// Everything the library has by name, read from its tables: what `list` and `demo` show.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "laconic/base/args.h"
#include "laconic/operators/stage.h"

namespace laconic::cli {

// Operators have more to say than the rest.
struct OperatorFacts {
  Role role;
  std::vector<std::string> examples;
  std::string spec;  // the chain whose traits these are
  Traits traits;

  bool lossless() const { return role == Role::coder; }
};

struct Entry {
  std::string name, summary, paper;
  std::vector<Parameter> parameters;
  std::optional<OperatorFacts> facts = {};
};

struct Group {
  std::string name;   // "operators"
  std::string title;  // what they are, in a few words
  std::vector<Entry> entries;
};

// Traits may depend on the count; they are shown for this one.
inline constexpr std::size_t kNominalCount = 1'000'000;

std::vector<Group> catalogue();

}  // namespace laconic::cli
