// Metrics, models and gradients as files.
#include "laconic/trainer/traces.h"

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
