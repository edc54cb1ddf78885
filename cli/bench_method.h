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

struct BenchMethod {
  std::string text, exchange, op, memory;
};

// Throws UsageError unless the text is "EXCHANGE OPERATOR MEMORY".
BenchMethod parse_bench_method(const std::string& text);

// Adds --method to a command.
void add_method_option(CLI::App& app, std::vector<std::string>& methods);

// `count` entries as so many equal matrices, or nearly so.
Model equal_parts(std::size_t count, std::size_t parts);

// Calls work(rank, its end) on a thread for each of the ends. Throws what one of them threw.
void on_ranks(std::vector<std::unique_ptr<Transport>> ends,
              const std::function<void(std::size_t, Transport&)>& work);

}  // namespace laconic::cli
