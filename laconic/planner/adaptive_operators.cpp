// Every variant of an operator on every tensor.
#include <algorithm>
#include <cmath>
#include <map>

#include "laconic/base/errors.h"
#include "laconic/codecs/varint.h"
#include "laconic/operators/stage.h"
#include "laconic/planner/trials.h"

namespace laconic {
namespace {

// The stage of a chain whose number decides how much is sent, and that number.
struct Knob {
  std::size_t stage;
  const StageInfo* info;
  std::size_t parameter;
};

std::optional<Knob> knob_of(const std::vector<StageText>& stages, Role role) {
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const StageInfo& info = stage_named(stages[i].name);
    if (info.role != role) continue;
    for (std::size_t p = 0; p < info.parameters.size(); ++p)
      if (!info.parameters[p].is_word()) return Knob{i, &info, p};
  }
  return std::nullopt;
}

std::vector<double> ladder(const Parameter& parameter, double own) {
  std::vector<double> values = {own};
  if (parameter.whole) {
    for (double value = 1; value <= 1024; value *= 2)
      for (const double more : {value, 1.5 * value})
        if (more == std::floor(more)) values.push_back(more);
  } else {
    for (int i = -12; i <= 12; ++i) values.push_back(own * std::exp2(0.5 * i));
  }
  std::erase_if(values, [&](double v) { return v < parameter.min || v > parameter.max; });
  std::ranges::sort(values);
  return values;
}

std::uint64_t table_bytes(std::size_t count, std::size_t size) {
  return 2 + varint_size(count) + 2 + varint_size(size);
}

Recipe uniform_recipe(const std::string& op, const char* layout) {
  const bool unbiased = parse_operator(op).traits(1 << 16).unbiased;
  return {.name = "planned",
          .op = parse_operator(op).spec(),
          .memory = unbiased ? "none" : "feedback",
          .layout = layout};
}

// The operator that most tensors have stands for all that no rule names.
Recipe with_rules(Recipe recipe, const Model& model, const std::vector<std::string>& specs) {
  std::map<std::string, std::size_t> often;
  for (const std::string& spec : specs) ++often[spec];
  recipe.op =
      std::ranges::max_element(often, {}, [](const auto& entry) { return entry.second; })->first;
  for (std::size_t i = 0; i < model.size(); ++i)
    if (specs[i] != recipe.op)
      recipe.rules.push_back("name=" + only(model[i].name) + ",op=" + specs[i]);
  recipe.summary = "An operator for each tensor, chosen on recorded gradients.";
  return recipe;
}

class OperatorTrials : public Trials {
 public:
  OperatorTrials(const std::string& op, const Situation& situation)
      : op_(op), situation_(situation), variants_(variants_of(op)) {
    for (const auto& x : samples().gradients) {
      double sum = 0;
      for (const float value : x) sum += static_cast<double>(value) * value;
      squares_.push_back(sum);
    }
    std::size_t offset = 0;
    for (const Tensor& tensor : samples().model) {
      auto& of_tensor = measured_.emplace_back();
      for (const std::string& variant : variants_)
        of_tensor.push_back(on_tensor(parse_operator(variant), offset, tensor.count()));
      offset += tensor.count();
    }
  }

  Recipe recipe_of(const std::vector<std::size_t>& variants) const override {
    std::vector<std::string> specs;
    for (const std::size_t variant : variants) specs.push_back(variants_[variant]);
    return with_rules(layer_wise(), samples().model, specs);
  }
  Recipe layer_wise() const override { return uniform_recipe(op_, "tensor"); }
  std::optional<Recipe> entire_model() const override { return uniform_recipe(op_, "whole"); }

  // Frames as they travel, errors slice by slice.
  Outcomes of_recipe(const Recipe& recipe) override {
    const Plan plan = make_plan(recipe, samples().model);
    Outcomes outcomes{.recipe = recipe, .bytes = frame_bytes(plan, situation_)};
    for (std::size_t i = 0; i < plan.layout.size(); ++i)
      outcomes.error += on_tensor(plan.op(i), plan.layout[i].offset, plan.layout[i].count).error;
    return outcomes;
  }

 private:
  const Samples& samples() const { return situation_.samples; }

  Measured on_tensor(const Operator& op, std::size_t offset, std::size_t count) {
    Measured measured;
    const double weight = 1.0 / static_cast<double>(squares_.size());
    for (std::size_t i = 0; i < squares_.size(); ++i) {
      const auto x = std::span(samples().gradients[i]).subspan(offset, count);
      if (std::ranges::all_of(x, [](float value) { return value == 0; })) continue;  // rests
      section_.clear();
      const Keys keys = make_keys(1, kForeseenStep, 0).at(offset);
      if (!op.encode(x, section_, keys, scratch_)) continue;
      decoded_.assign(count, 0.0F);
      op.add(section_.view(), 1, decoded_, keys, scratch_);
      double lost = 0;
      for (std::size_t j = 0; j < count; ++j) {
        const double difference = static_cast<double>(decoded_[j]) - x[j];
        lost += difference * difference;
      }
      measured.bytes +=
          weight * static_cast<double>(section_.size() + table_bytes(count, section_.size()));
      measured.error += weight * lost / squares_[i];
    }
    return measured;
  }

  std::string op_;
  const Situation& situation_;
  std::vector<std::string> variants_;
  std::vector<double> squares_;  // |x|^2 by gradient
  Scratch scratch_;
  Buffer section_;
  std::vector<float> decoded_;
};

}  // namespace

std::unique_ptr<Trials> try_operators(const std::string& op, const Situation& situation) {
  return std::make_unique<OperatorTrials>(op, situation);
}

std::vector<std::string> variants_of(std::string_view op) {
  if (is_of_ranks(op)) return variants_of_ranks(op);
  const std::string spec = parse_operator(op).spec();
  const auto stages = split_chain(spec);
  auto knob = knob_of(stages, Role::selector);
  if (!knob) knob = knob_of(stages, Role::sparse_quantiser);
  if (!knob) knob = knob_of(stages, Role::quantiser);
  if (!knob)
    throw UsageError("operator '" + spec +
                     "' has no density, levels or bits to choose; allowed: one such as topk:0.01 "
                     "or bucket:512+qsgd:4, or powersgd, which has ranks");
  const Args args(knob->info->name, knob->info->parameters, stages[knob->stage].args);
  const Parameter& varied = knob->info->parameters[knob->parameter];
  std::vector<std::string> variants;
  for (const double value : ladder(varied, args.number(varied.name))) {
    std::string text;
    for (const Parameter& parameter : knob->info->parameters)
      text += (text.empty() ? "" : ",") + parameter.name + "=" +
              (&parameter == &varied ? number_text(value) : args.text(parameter.name));
    std::string chain;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      if (i > 0) chain += "+";
      chain += stages[i].name;
      const std::string arguments = i == knob->stage ? text : std::string(stages[i].args);
      if (!arguments.empty()) chain += ":" + arguments;
    }
    const std::string canonical = parse_operator(chain).spec();
    if (std::ranges::find(variants, canonical) == variants.end()) variants.push_back(canonical);
  }
  return variants;
}

}  // namespace laconic
