// Methods by their text, and threads that stand for ranks.
#include "cli/bench_method.h"

#include <CLI/CLI.hpp>
#include <thread>

#include "laconic/base/errors.h"

namespace laconic::cli {

BenchMethod parse_bench_method(const std::string& text) {
  const std::size_t a = text.find(' '), b = text.find(' ', a + 1);
  if (a == std::string::npos || b == std::string::npos ||
      text.find(' ', b + 1) != std::string::npos)
    throw UsageError("a method '" + text +
                     "'; allowed: EXCHANGE OPERATOR MEMORY, as in 'gather topk:0.01 feedback'");
  return {text, text.substr(0, a), text.substr(a + 1, b - a - 1), text.substr(b + 1)};
}

void add_method_option(CLI::App& app, std::vector<std::string>& methods) {
  app.add_option("--method", methods,
                 "EXCHANGE OPERATOR MEMORY to time; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false);
}

Model equal_parts(std::size_t count, std::size_t parts) {
  Model model;
  for (std::size_t i = 0; i < parts; ++i) {
    const std::size_t entries = count / parts * (i + 1) + count % parts * (i + 1) / parts -
                                count / parts * i - count % parts * i / parts;
    const std::size_t cols = entries % 512 == 0 ? 512 : 1;
    model.push_back({"w" + std::to_string(i), {entries / cols, cols}});
  }
  return model;
}

// An end goes with its thread, so that the others are told when one fails.
void on_ranks(std::vector<std::unique_ptr<Transport>> ends,
              const std::function<void(std::size_t, Transport&)>& work) {
  std::vector<std::exception_ptr> failures(ends.size());
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < ends.size(); ++rank)
    ranks.emplace_back([&, rank] {
      const std::unique_ptr<Transport> end = std::move(ends[rank]);
      try {
        work(rank, *end);
      } catch (...) {
        failures[rank] = std::current_exception();
      }
    });
  for (auto& rank : ranks) rank.join();
  for (const auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace laconic::cli
