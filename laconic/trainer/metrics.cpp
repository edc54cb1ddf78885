// Evaluations as JSON.
#include "laconic/trainer/metrics.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "laconic/base/errors.h"

namespace laconic::trainer {

using nlohmann::json;

std::string write_evaluation(const Evaluation& e) {
  const Totals& t = e.totals;
  // ordered_json keeps the order in which people read it.
  return nlohmann::ordered_json{{"step", e.step},
                                {"epoch", e.epoch},
                                {"loss", e.loss},
                                {"test_loss", e.test_loss},
                                {"accuracy", e.accuracy},
                                {"worker_accuracy", e.worker_accuracy},
                                {"wire_bytes", t.wire_bytes},
                                {"traffic_bytes", t.traffic_bytes},
                                {"dense_bytes", t.dense_bytes},
                                {"rounds", t.rounds},
                                {"up_bytes", t.up_bytes},
                                {"down_bytes", t.down_bytes},
                                {"seconds",
                                 {{"compute", t.compute_seconds},
                                  {"compress", t.compress_seconds},
                                  {"exchange", t.exchange_seconds},
                                  {"decompress", t.decompress_seconds},
                                  {"update", t.update_seconds}}},
                                {"exposed_seconds", t.exposed_seconds()},
                                {"residual_norm", e.residual_norm},
                                {"skipped", e.skipped}}
      .dump();
}

Evaluation read_evaluation(const std::string& line) {
  try {
    const json o = json::parse(line);
    const json& s = o.at("seconds");
    // A loss that is not finite is null in JSON.
    const auto number = [&](const char* key) {
      return o.at(key).is_null() ? NAN : o.at(key).get<double>();
    };
    Evaluation e{.step = o.at("step"),
                 .epoch = o.at("epoch"),
                 .loss = number("loss"),
                 .test_loss = number("test_loss"),
                 .accuracy = o.at("accuracy"),
                 .worker_accuracy = o.at("worker_accuracy"),
                 .residual_norm = number("residual_norm"),
                 .skipped = o.at("skipped"),
                 .totals = {}};
    e.totals = {.wire_bytes = o.at("wire_bytes"),
                .traffic_bytes = o.at("traffic_bytes"),
                .dense_bytes = o.at("dense_bytes"),
                .rounds = o.at("rounds"),
                .up_bytes = o.at("up_bytes"),
                .down_bytes = o.at("down_bytes"),
                .compute_seconds = s.at("compute"),
                .compress_seconds = s.at("compress"),
                .exchange_seconds = s.at("exchange"),
                .decompress_seconds = s.at("decompress"),
                .update_seconds = s.at("update")};
    return e;
  } catch (const json::exception& error) {
    throw DataError(std::string("not an evaluation: ") + error.what());
  }
}

}  // namespace laconic::trainer
