// Metrics, models and gradients as files.
#include "laconic/trainer/traces.h"

#include <filesystem>
#include <fstream>

#include "laconic/base/errors.h"
#include "laconic/base/file.h"
#include "laconic/base/npy.h"
#include "laconic/base/npz.h"
#include "laconic/exchange/guard.h"
#include "laconic/memory/memory.h"

namespace laconic::trainer {

void write_metrics(const std::string& path, const std::vector<Evaluation>& evaluations) {
  std::string lines;
  for (const Evaluation& evaluation : evaluations) lines += write_evaluation(evaluation) + "\n";
  write_file(path, as_bytes(lines));
}

void keep_decisions_before(const std::string& path, std::uint64_t step) {
  if (!std::filesystem::exists(path)) return;
  std::ifstream in(path);
  std::string kept;
  for (std::string line; std::getline(in, line);)
    if (read_decision(line).step < step) kept += line + "\n";
  write_file(path, as_bytes(kept));
}

void add_decisions(const std::string& path, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  std::ofstream out(path, std::ios::app);
  for (const std::string& line : lines) out << line << '\n';
  if (!out.flush()) throw SystemError("'" + path + "' cannot be written");
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
