// Models and gradients from files.
#include "laconic/planner/samples.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "laconic/base/errors.h"
#include "laconic/base/file.h"
#include "laconic/base/key.h"
#include "laconic/base/npz.h"
#include "laconic/kernels/reduce.h"
#include "laconic/layout/models.h"

namespace laconic {
namespace {

using nlohmann::json;

template <class Read>
auto named(const std::string& path, Read read) {
  try {
    return read();
  } catch (const UsageError& error) {
    throw UsageError(path + ": " + error.what());
  } catch (const DataError& error) {
    throw DataError(path + ": " + error.what());
  }
}

struct Recorded {
  Model model;
  std::vector<float> values;
};

void require_usable(const Recorded& recorded) {
  if (recorded.values.empty()) throw DataError("there is no entry in it");
  if (!kernels::all_finite(recorded.values))
    throw DataError("it holds NaN or Inf; plans are made from finite gradients");
  if (kernels::sum_of_squares(recorded.values) == 0) throw DataError("all its entries are 0");
}

Recorded read_gradients(const std::string& path) {
  const Buffer bytes = read_file(path);
  return named(path, [&] {
    Recorded recorded;
    for (const NpzArray& entry : read_npz(bytes.view())) {
      recorded.model.push_back({entry.name, entry.array.shape});
      recorded.values.insert(recorded.values.end(), entry.array.values.begin(),
                             entry.array.values.end());
    }
    require_usable(recorded);
    return recorded;
  });
}

std::string text_of(const Tensor& tensor) {
  std::string text = "'" + tensor.name + "' (";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i)
    text += (i > 0 ? " x " : "") + std::to_string(tensor.shape[i]);
  return text + ")";
}

void require_same(const Model& model, const Model& other, const std::string& path) {
  if (model.size() != other.size())
    throw UsageError(path + ": " + std::to_string(other.size()) + " tensors; the model has " +
                     std::to_string(model.size()));
  for (std::size_t i = 0; i < model.size(); ++i)
    if (model[i].name != other[i].name || model[i].shape != other[i].shape)
      throw UsageError(path + ": tensor " + text_of(other[i]) + " stands where the model has " +
                       text_of(model[i]));
}

std::size_t columns_of(const Tensor& tensor) {
  return tensor.shape.size() > 1 && tensor.shape[0] > 0 ? tensor.count() / tensor.shape[0] : 1;
}

std::vector<float> draw(const Model& model, std::uint64_t seed) {
  std::vector<float> values;
  values.reserve(count_of(model));
  const Key key(seed);
  for (const Tensor& tensor : model) {
    const std::size_t count = tensor.count();
    const float scale =
        0.01F / std::sqrt(static_cast<float>(std::max<std::size_t>(columns_of(tensor), 1)));
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t bits = key.bits(values.size());
      const float u = (static_cast<float>(bits >> 40) + 0.5F) * 0x1p-24F;
      values.push_back((bits & 1 ? -scale : scale) * -std::log(u));
    }
  }
  return values;
}

bool is_file(const std::string& name) { return name.ends_with(".json") || name.ends_with(".npz"); }

Samples model_named(const std::string& name) {
  const auto& all = named_models();
  const auto at = std::ranges::find(all, name, &NamedModel::name);
  if (at != all.end()) return {.name = name, .model = at->make(), .uses = at->uses};
  std::vector<std::string> names;
  for (const NamedModel& model : all) names.push_back(model.name);
  throw UsageError("no model '" + name + "'; known: " + join(names, " ") +
                   ", or a file FILE.json or FILE.npz");
}

}  // namespace

Model read_model(std::string_view text) {
  const json list = json::parse(text, nullptr, false);
  const auto refuse = [](const std::string& what) {
    throw UsageError(
        "a model must be a JSON list of tensors such as {\"name\": \"fc.weight\", "
        "\"shape\": [10, 500]}, not " +
        what);
  };
  if (!list.is_array() || list.empty())
    refuse(list.is_discarded() ? "this" : list.dump().substr(0, 60));
  Model model;
  for (const json& entry : list) {
    const bool good =
        entry.is_object() && entry.size() == 2 && entry.contains("name") &&
        entry["name"].is_string() && entry.contains("shape") && entry["shape"].is_array() &&
        std::ranges::all_of(entry["shape"], [](const json& n) { return n.is_number_unsigned(); });
    if (!good) refuse("with " + entry.dump().substr(0, 60));
    model.push_back({entry["name"], entry["shape"]});
  }
  if (count_of(model) == 0) throw UsageError("the model has no entry");
  return model;
}

Samples read_samples(const std::string& model, const std::vector<std::string>& files,
                     std::uint64_t seed) {
  Samples samples;
  if (!is_file(model)) {
    samples = model_named(model);
  } else if (model.ends_with(".json")) {
    const Buffer bytes = read_file(model);
    samples = {.name = model,
               .model = named(model, [&] { return read_model(as_text(bytes.view())); })};
  } else {
    Recorded recorded = read_gradients(model);
    samples = {.name = model, .model = std::move(recorded.model)};
    if (files.empty()) samples.gradients.push_back(std::move(recorded.values));
  }
  make_plan(samples.model, "tensor", parse_operator("identity"));  // names are distinct
  for (const std::string& file : files) {
    Recorded recorded = read_gradients(file);
    require_same(samples.model, recorded.model, file);
    samples.gradients.push_back(std::move(recorded.values));
  }
  samples.drawn = samples.gradients.empty();
  if (samples.drawn) samples.gradients.push_back(draw(samples.model, seed));
  return samples;
}

}  // namespace laconic
