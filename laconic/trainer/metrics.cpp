// Evaluations as JSON.
#include "laconic/trainer/metrics.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "laconic/base/errors.h"

namespace laconic::trainer {
namespace {

using nlohmann::ordered_json;  // keeps the order in which people read it

ordered_json totals_to_json(const Totals& t) {
  return {{"wire_bytes", t.wire_bytes},
          {"traffic_bytes", t.traffic_bytes},
          {"dense_bytes", t.dense_bytes},
          {"rounds", t.rounds},
          {"up_bytes", t.up_bytes},
          {"down_bytes", t.down_bytes},
          {"aside_bytes", t.aside_bytes},
          {"aside_rounds", t.aside_rounds},
          {"seconds",
           {{"compute", t.compute_seconds},
            {"compress", t.compress_seconds},
            {"exchange", t.exchange_seconds},
            {"decompress", t.decompress_seconds},
            {"update", t.update_seconds}}},
          {"lanes", t.lane_steps},
          {"exposed_seconds", t.exposed_seconds}};
}

// Of a build with fewer lanes they are fewer.
std::array<std::uint64_t, kLanes> lanes_of(const ordered_json& o) {
  std::array<std::uint64_t, kLanes> steps = {};
  const auto written = o.value("lanes", std::vector<std::uint64_t>{});
  std::copy_n(written.begin(), std::min(written.size(), steps.size()), steps.begin());
  return steps;
}

Totals totals_from_json(const ordered_json& o) {
  const ordered_json& s = o.at("seconds");
  return {.wire_bytes = o.at("wire_bytes"),
          .dense_bytes = o.at("dense_bytes"),
          .traffic_bytes = o.at("traffic_bytes"),
          .rounds = o.at("rounds"),
          .up_bytes = o.at("up_bytes"),
          .down_bytes = o.at("down_bytes"),
          .aside_bytes = o.at("aside_bytes"),
          .aside_rounds = o.at("aside_rounds"),
          .compute_seconds = s.at("compute"),
          .compress_seconds = s.at("compress"),
          .exchange_seconds = s.at("exchange"),
          .decompress_seconds = s.at("decompress"),
          .update_seconds = s.at("update"),
          .lane_steps = lanes_of(o),
          .exposed_seconds = o.at("exposed_seconds")};
}

// Reads one line of JSON by `from`.
template <class From>
auto read_line(const std::string& line, const char* what, From from) {
  try {
    return from(ordered_json::parse(line));
  } catch (const ordered_json::exception& error) {
    throw DataError(std::string("not ") + what + ": " + error.what());
  }
}

Evaluation evaluation_from_json(const ordered_json& o) {
  // A loss that is not finite is null in JSON.
  const auto number = [&](const char* key) {
    return o.at(key).is_null() ? NAN : o.at(key).get<double>();
  };
  // Checkpoints may be older than these.
  const auto newer = [&](const char* key) { return o.contains(key) ? number(key) : 0; };
  return {.step = o.at("step"),
          .epoch = o.at("epoch"),
          .loss = number("loss"),
          .test_loss = number("test_loss"),
          .accuracy = o.at("accuracy"),
          .worker_accuracy = o.at("worker_accuracy"),
          .residual_norm = number("residual_norm"),
          .model_norm = newer("model_norm"),
          .consensus_distance = newer("consensus_distance"),
          .neighbour_difference = newer("neighbour_difference"),
          .skipped = o.at("skipped"),
          .totals = totals_from_json(o)};
}

}  // namespace

void Totals::add(const StepStats& stats) {
  wire_bytes += stats.wire_bytes;
  dense_bytes += stats.dense_bytes;
  up_bytes += stats.up_bytes;
  down_bytes += stats.down_bytes;
  compress_seconds += stats.compress_seconds;
  exchange_seconds += stats.exchange_seconds;
  decompress_seconds += stats.decompress_seconds;
  update_seconds += stats.update_seconds;
  lane_steps[static_cast<std::size_t>(stats.lane)] += stats.traffic_bytes > 0;
}

std::string write_evaluation(const Evaluation& e) {
  ordered_json line = {{"step", e.step},         {"epoch", e.epoch},
                       {"loss", e.loss},         {"test_loss", e.test_loss},
                       {"accuracy", e.accuracy}, {"worker_accuracy", e.worker_accuracy}};
  line.update(totals_to_json(e.totals));
  line["residual_norm"] = e.residual_norm;
  line["model_norm"] = e.model_norm;
  line["consensus_distance"] = e.consensus_distance;
  line["neighbour_difference"] = e.neighbour_difference;
  line["skipped"] = e.skipped;
  return line.dump();
}

Evaluation read_evaluation(const std::string& line) {
  return read_line(line, "an evaluation", evaluation_from_json);
}

std::string write_totals(const Totals& totals) { return totals_to_json(totals).dump(); }

Totals read_totals(const std::string& line) { return read_line(line, "totals", totals_from_json); }

}  // namespace laconic::trainer
