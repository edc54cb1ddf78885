// Metrics, models and gradients as files.
#include "laconic/trainer/traces.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "laconic/base/errors.h"
#include "laconic/base/file.h"
#include "laconic/base/npy.h"
#include "laconic/base/npz.h"
#include "laconic/memory/memory.h"

namespace laconic::trainer {

void write_metrics(const std::string& path, const std::vector<Evaluation>& evaluations) {
  std::string lines;
  for (const Evaluation& evaluation : evaluations) lines += write_evaluation(evaluation) + "\n";
  write_file(path, as_bytes(lines));
}

void keep_lines_before(const std::string& path, std::uint64_t step) {
  if (!std::filesystem::exists(path)) return;
  std::ifstream in(path);
  std::string kept;
  for (std::string line; std::getline(in, line);)
    if (const auto json = nlohmann::json::parse(line, nullptr, false);
        json.is_object() && json.contains("step") && json["step"].is_number_unsigned() &&
        json["step"].get<std::uint64_t>() < step)
      kept += line + "\n";
  write_file(path, as_bytes(kept));
}

void add_lines(const std::string& path, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  std::ofstream out(path, std::ios::app);
  for (const std::string& line : lines) out << line << '\n';
  if (!out.flush()) throw SystemError("'" + path + "' cannot be written");
}

std::string write_step(const StepTrace& trace) {
  nlohmann::ordered_json parts = nlohmann::json::array(), units = nlohmann::json::array();
  std::vector<UnitTimes> in_order = trace.units;
  std::ranges::stable_sort(in_order, {}, &UnitTimes::written);
  double shown = trace.compute;
  for (const UnitTimes& unit : in_order) {
    parts.push_back(std::max(0.0, unit.written - shown));
    shown = std::max(shown, unit.written);
    units.push_back({{"bytes", unit.bytes},
                     {"closed", unit.closed},
                     {"left", unit.left},
                     {"arrived", unit.arrived},
                     {"written", unit.written}});
  }
  const nlohmann::ordered_json line = {
      {"step", trace.step},
      {"lane", lane_name(static_cast<std::size_t>(trace.lane))},
      {"seconds", trace.compute + trace.exchange + trace.update},
      {"compute", trace.compute},
      {"parts", parts},
      {"vote", std::max(0.0, trace.compute + trace.exchange - shown)},
      {"update", trace.update},
      {"bytes", trace.bytes},
      {"units", units}};
  return line.dump();
}

void write_model(const std::string& path, const Model& model, std::span<const float> parameters) {
  State state;
  save_tensors("parameters", model, parameters, state);
  write_file(path, write_state(state).view());
}

void write_gradient(const std::string& path, const Model& model, std::span<const float> gradient) {
  NpzWriter npz;
  for (const Tensor& tensor : model) {
    Buffer npy;
    append_npy(NpyDtype::float32, tensor.shape, gradient.first(tensor.count()), npy);
    npz.add(tensor.name, npy.view());
    gradient = gradient.subspan(tensor.count());
  }
  write_file(path, npz.finish().view());
}

}  // namespace laconic::trainer
