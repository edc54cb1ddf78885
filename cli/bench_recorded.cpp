// The file: {"count": n, "operators": {spec: {"encode": ratio, "feedback": ratio, "add": ratio}}}.
#include "cli/bench_recorded.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/array.h"
#include "laconic/base/args.h"
#include "laconic/base/file.h"

namespace laconic::cli {
namespace {

constexpr double kAllowed = 2;
constexpr double kLeast = 0.05;  // of a memcpy: what takes less is not told from noise
constexpr int kTries = 6;

using Ratios = std::map<std::string, double>;  // by verb

Ratios ratios_of(const Speed& row, double copy) {
  return {{"encode", row.encode.best() / copy},
          {"feedback", row.feedback.best() / copy},
          {"add", row.add.best() / copy}};
}

struct Recorded {
  std::size_t count = 0;
  std::map<std::string, Ratios> operators;
};

Recorded read_recorded(const std::string& path) {
  const Buffer bytes = read_file(path);
  try {
    const Json json = Json::parse(as_text(bytes.view()));
    return {json.at("count").get<std::size_t>(),
            json.at("operators").get<std::map<std::string, Ratios>>()};
  } catch (const nlohmann::json::exception&) {
    throw DataError(path + ": no recorded speeds as laconic bench operators --record writes them");
  }
}

// What is above its limit, one text each. `best` is brought down to the new ratios.
std::vector<std::string> excesses(const Speed& row, double copy, const Ratios& recorded,
                                  Ratios& best) {
  std::vector<std::string> texts;
  for (const auto& [verb, ratio] : ratios_of(row, copy)) {
    const auto [at, is_new] = best.try_emplace(verb, ratio);
    at->second = std::min(at->second, ratio);
    const auto was = recorded.find(verb);
    if (was == recorded.end() || at->second <= kAllowed * std::max(was->second, kLeast)) continue;
    texts.push_back(fmt::format("{} of '{}' takes {:.2f} memcpys instead of {:.2f}", verb,
                                row.op.spec(), at->second, was->second));
  }
  return texts;
}

}  // namespace

void record_speeds(const std::string& path, const SpeedOptions& options, Scratch& scratch) {
  require_writable(path);
  const Speeds speeds = measure_speeds(options, scratch);
  Json json = {{"count", options.count}, {"operators", Json::object()}};
  const auto rounded = [](double ratio) { return std::round(ratio * 1000) / 1000; };
  for (const Speed& row : speeds.rows)
    for (const auto& [verb, ratio] : ratios_of(row, speeds.copy.best()))
      json["operators"][row.op.spec()][verb] = rounded(ratio);
  write_file(path, as_bytes(json.dump(1) + "\n"));
  fmt::print("{}: {} operators on {} entries\n", path, speeds.rows.size(),
             with_commas(options.count));
}

void compare_speeds(const std::string& path, const SpeedOptions& options, Scratch& scratch) {
  const Recorded recorded = read_recorded(path);
  SpeedOptions next = options;
  next.count = recorded.count;
  if (next.count == 0) throw DataError(path + ": a count of 0; allowed: 1 and more");
  std::map<std::string, Ratios> best;
  std::vector<std::string> failures;
  std::size_t operators = 0;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const Speeds speeds = measure_speeds(next, scratch);
    operators = std::max(operators, speeds.rows.size());
    failures.clear();
    next.specs.clear();
    for (const Speed& row : speeds.rows) {
      const auto was = recorded.operators.find(row.op.spec());
      if (was == recorded.operators.end()) {
        fmt::print("{} has no '{}': not compared\n", path, row.op.spec());
        continue;
      }
      const auto texts = excesses(row, speeds.copy.best(), was->second, best[row.op.spec()]);
      if (!texts.empty()) next.specs.push_back(row.op.spec());
      failures.insert(failures.end(), texts.begin(), texts.end());
    }
    if (failures.empty()) break;
  }
  if (!failures.empty()) throw SystemError(join(failures, "; "));
  fmt::print("{} operators on {} entries, none more than twice what {} has\n", operators,
             with_commas(recorded.count), path);
}

}  // namespace laconic::cli
