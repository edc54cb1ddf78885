// What `bench step` and `bench overlap` time: an exchange, an operator and a memory.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "laconic/exchange/aggregator.h"

namespace CLI {
class App;
}

namespace laconic::cli {

// From a text "EXCHANGE OPERATOR MEMORY".
struct BenchMethod {
  std::string text, exchange, op, memory;
};

struct BenchOptions {
  std::vector<std::string> methods = {};
  std::size_t count;
  int ranks = 4;
  unsigned repeats;
  bool json = false;

  // Adds these options to a command.
  void attach(CLI::App& app);

  // Throws UsageError for numbers that are not allowed.
  void check() const;

  // Those given, or these.
  std::vector<BenchMethod> methods_or(const std::vector<std::string>& fallback) const;
};

// `count` entries as so many equal matrices, or nearly so.
Model equal_parts(std::size_t count, std::size_t parts);

// Calls work(rank, its end) on a thread for each of the ends. Throws what one of them threw.
void on_ranks(std::vector<std::unique_ptr<Transport>> ends,
              const std::function<void(std::size_t, Transport&)>& work);

}  // namespace laconic::cli
