// Every variant on every tensor, then the best choice.
#include "laconic/planner/adaptive.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "laconic/base/errors.h"
#include "laconic/codecs/varint.h"
#include "laconic/operators/stage.h"

namespace laconic {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

std::string number_text(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::general, 4);
  return {text, end.ptr};
}

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

// What one variant makes of one tensor, over all gradients.
struct Measured {
  double bytes = 0, error = 0;
};

std::uint64_t table_bytes(std::size_t count, std::size_t size) {
  return 2 + varint_size(count) + 2 + varint_size(size);
}

class Trials {
 public:
  explicit Trials(const Situation& situation) : situation_(situation) {
    for (const auto& x : samples().gradients) {
      double sum = 0;
      for (const float value : x) sum += static_cast<double>(value) * value;
      squares_.push_back(sum);
    }
  }

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

  // Of a plan as a whole: frames as they travel, errors slice by slice.
  Outcomes of_recipe(const Recipe& recipe) {
    const Plan plan = make_plan(recipe, samples().model);
    Outcomes outcomes{.recipe = recipe, .bytes = frame_bytes(plan, situation_)};
    for (std::size_t i = 0; i < plan.layout.size(); ++i)
      outcomes.error += on_tensor(plan.op(i), plan.layout[i].offset, plan.layout[i].count).error;
    return outcomes;
  }

  const Samples& samples() const { return situation_.samples; }

 private:
  const Situation& situation_;
  std::vector<double> squares_;  // |x|^2 by gradient
  Scratch scratch_;
  Buffer section_;
  std::vector<float> decoded_;
};

// A glob that fits this name alone.
std::string only(const std::string& name) {
  if (name.find(',') != std::string::npos)
    throw UsageError("tensor '" + name + "' has a comma in its name, which no rule can have");
  std::string glob;
  for (const char c : name) {
    if (std::string_view("*?[]\\").find(c) != std::string_view::npos) glob += '\\';
    glob += c;
  }
  return glob;
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

class Search {
 public:
  Search(const std::string& op, const Situation& situation)
      : trials_(situation), base_(uniform_recipe(op, "tensor")), variants_(variants_of(op)) {
    std::size_t offset = 0;
    for (const Tensor& tensor : trials_.samples().model) {
      auto& of_tensor = measured_.emplace_back();
      for (const std::string& variant : variants_)
        of_tensor.push_back(trials_.on_tensor(parse_operator(variant), offset, tensor.count()));
      offset += tensor.count();
    }
  }

  Trials& trials() { return trials_; }
  const Recipe& base() const { return base_; }

  std::optional<Outcomes> within(double budget, bool of_bytes) {
    std::vector<std::vector<Way>> layers;
    for (const auto& of_tensor : measured_) {
      auto& ways = layers.emplace_back();
      for (const Measured& m : of_tensor)
        ways.push_back(of_bytes ? Way{m.error, m.bytes} : Way{m.bytes, m.error});
    }
    const auto chosen = choose_ways(layers, budget);
    if (!chosen) return std::nullopt;
    std::vector<std::string> specs;
    for (const std::size_t way : *chosen) specs.push_back(variants_[way]);
    return trials_.of_recipe(with_rules(base_, trials_.samples().model, specs));
  }

  // Heads of frames and names of operators are in no tensor's bytes: what they take is taken off
  // the budget until the frames keep it.
  std::optional<Outcomes> within_bytes(std::uint64_t bytes) {
    double room = static_cast<double>(bytes);
    std::optional<Outcomes> found;
    for (int round = 0; round < 8 && room > 0; ++round) {
      found = within(room, true);
      if (!found || found->bytes <= bytes) return found;
      room -= static_cast<double>(found->bytes - bytes);
    }
    return std::nullopt;
  }

 private:
  Trials trials_;
  Recipe base_;
  std::vector<std::string> variants_;
  std::vector<std::vector<Measured>> measured_;  // by tensor, then by variant
};

}  // namespace

std::optional<std::vector<std::size_t>> choose_ways(const std::vector<std::vector<Way>>& layers,
                                                    double budget, std::size_t steps) {
  const auto places = steps + 1;
  const auto part = [&](const Way& way) -> std::size_t {
    if (way.limited <= 0) return 0;
    const double share = std::ceil(way.limited / budget * static_cast<double>(steps));
    return budget > 0 && share <= static_cast<double>(steps) ? static_cast<std::size_t>(share)
                                                             : places;
  };
  std::vector<double> least(places, 0), next(places);  // by what is taken of the budget, at most
  std::vector<std::uint16_t> taken(layers.size() * places);
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    std::ranges::fill(next, kNever);
    for (std::size_t way = 0; way < layers[layer].size(); ++way) {
      const std::size_t used = part(layers[layer][way]);
      for (std::size_t at = used; at < places; ++at) {
        const double cost = least[at - used] + layers[layer][way].cost;
        if (!(cost < next[at])) continue;
        next[at] = cost;
        taken[layer * places + at] = static_cast<std::uint16_t>(way);
      }
    }
    std::swap(least, next);
  }
  if (!(least[steps] < kNever)) return std::nullopt;
  std::vector<std::size_t> chosen(layers.size());
  for (std::size_t layer = layers.size(), at = steps; layer-- > 0;) {
    chosen[layer] = taken[layer * places + at];
    at -= part(layers[layer][chosen[layer]]);
  }
  return chosen;
}

std::vector<std::string> variants_of(std::string_view op) {
  const std::string spec = parse_operator(op).spec();
  const auto stages = split_chain(spec);
  auto knob = knob_of(stages, Role::selector);
  if (!knob) knob = knob_of(stages, Role::sparse_quantiser);
  if (!knob) knob = knob_of(stages, Role::quantiser);
  if (!knob)
    throw UsageError("operator '" + spec +
                     "' has no density, levels or bits to choose; allowed: one such as topk:0.01 "
                     "or bucket:512+qsgd:4");
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

Adaptive adapt(const std::string& op, const Budget& budget, const Situation& situation) {
  if (budget.bytes && budget.error)
    throw UsageError("a budget of bytes and one of error; allowed: one of them");
  if (budget.error && !(*budget.error >= 0 && *budget.error <= 1))
    throw UsageError("an error of " + number_text(*budget.error) + "; allowed: 0 to 1");
  Search search(op, situation);
  Adaptive adaptive{.chosen = {},
                    .layer_wise = search.trials().of_recipe(search.base()),
                    .entire_model = search.trials().of_recipe(uniform_recipe(op, "whole"))};
  const double error = budget.error.value_or(adaptive.layer_wise.error);
  std::vector<Outcomes> able;
  const auto consider = [&](const std::optional<Outcomes>& outcomes) {
    if (outcomes && (budget.bytes ? outcomes->bytes <= *budget.bytes : outcomes->error <= error))
      able.push_back(*outcomes);
  };
  consider(budget.bytes ? search.within_bytes(*budget.bytes) : search.within(error, false));
  consider(adaptive.layer_wise);
  consider(adaptive.entire_model);
  if (able.empty())
    throw UsageError(
        budget.bytes ? "no choice for '" + op + "' fits in " + std::to_string(*budget.bytes) +
                           " bytes; as it is it takes " + std::to_string(adaptive.layer_wise.bytes)
                     : "no choice for '" + op + "' has an error of at most " + number_text(error) +
                           "; as it is it has " + number_text(adaptive.layer_wise.error));
  adaptive.chosen = *std::ranges::min_element(able, {}, [&](const Outcomes& outcomes) {
    return budget.bytes ? outcomes.error : static_cast<double>(outcomes.bytes);
  });
  check_recipe(adaptive.chosen.recipe);
  return adaptive;
}

}  // namespace laconic
