// Methods by their text, and threads that stand for ranks.
#include "cli/bench_method.h"

#include <CLI/CLI.hpp>
#include <thread>

#include "laconic/base/errors.h"

namespace laconic::cli {

namespace {

BenchMethod parse_bench_method(const std::string& text) {
  const std::size_t a = text.find(' '), b = text.find(' ', a + 1);
  if (a == std::string::npos || b == std::string::npos ||
      text.find(' ', b + 1) != std::string::npos)
    throw UsageError("a method '" + text +
                     "'; allowed: EXCHANGE OPERATOR MEMORY, as in 'gather topk:0.01 feedback'");
  return {text, text.substr(0, a), text.substr(a + 1, b - a - 1), text.substr(b + 1)};
}

}  // namespace

void BenchOptions::attach(CLI::App& app) {
  app.add_option("--method", methods,
                 "EXCHANGE OPERATOR MEMORY to time; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  app.add_option("--count", count, "Entries of the gradient")->capture_default_str();
  app.add_option("--ranks", ranks, "Ranks, as threads")->capture_default_str();
  app.add_option("--repeats", repeats, "Rounds, of which the best counts")->capture_default_str();
  app.add_flag("--json", json, "Print JSON");
}

void BenchOptions::check() const {
  if (count == 0 || repeats == 0 || ranks < 1 || ranks > 64)
    throw UsageError("--count and --repeats must be at least 1, --ranks 1 to 64");
}

std::vector<BenchMethod> BenchOptions::methods_or(const std::vector<std::string>& fallback) const {
  std::vector<BenchMethod> parsed;
  for (const std::string& text : methods.empty() ? fallback : methods)
    parsed.push_back(parse_bench_method(text));
  return parsed;
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
