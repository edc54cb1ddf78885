// Plans: rules choose each tensor's operator and rank, then a layout cuts each run of tensors that
// share them.
#include "laconic/layout/layout.h"

#include <fnmatch.h>

#include <algorithm>
#include <optional>
#include <set>

#include "laconic/base/npy.h"
#include "laconic/base/registry.h"

namespace laconic {
namespace {

Registry<LayoutInfo>& registry() {
  static Registry<LayoutInfo> layouts("layout");
  return layouts;
}

constexpr std::size_t kMostEntries = std::size_t{1} << 48;  // sizes in bytes can then not overflow

// Memory is kept by tensor name: two of one name would share it.
void require_distinct_names(const Model& model) {
  std::set<std::string_view> names;
  for (const Tensor& tensor : model)
    if (!names.insert(tensor.name).second)
      throw UsageError("the model has two tensors named '" + tensor.name + "'");
}

Layout slices_of(const Model& model) {
  require_distinct_names(model);
  count_of(model);
  Layout tensors;
  std::size_t offset = 0;
  for (const Tensor& tensor : model) {
    const std::size_t count = tensor.count();
    const bool matrix = tensor.shape.size() > 1 && tensor.shape[0] > 0;
    const std::size_t rows = matrix ? static_cast<std::size_t>(tensor.shape[0]) : count;
    tensors.push_back({tensor.name, offset, count, rows, matrix ? count / rows : 1});
    offset += count;
  }
  return tensors;
}

// Index of the operator in the list, which gets it if it is new.
std::size_t index_in(std::vector<Operator>& operators, const Operator& op) {
  const auto at = std::ranges::find(operators, op);
  if (at != operators.end()) return static_cast<std::size_t>(at - operators.begin());
  operators.push_back(op);
  return operators.size() - 1;
}

// Cuts a rule at its commas: a name is a glob, op=SPEC the rest; all others are numbers.
struct RuleText {
  std::string name = "*", numbers = {};
  std::optional<std::string> op = {};
  bool has_rank = false;
};

RuleText cut_rule(std::string_view text) {
  RuleText cut;
  const auto at = text.rfind("op=");
  if (at != std::string_view::npos && (at == 0 || text[at - 1] == ',')) {
    cut.op = text.substr(at + 3);
    text = text.substr(0, at > 0 ? at - 1 : 0);
  }
  for (std::string_view rest = text; !rest.empty();) {
    const auto part = rest.substr(0, rest.find(','));
    if (part.starts_with("name="))
      cut.name = part.substr(5);
    else
      cut.numbers.append(cut.numbers.empty() ? "" : ",").append(part);
    cut.has_rank |= part.starts_with("rank=");
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
  }
  return cut;
}

std::vector<Parameter> rule_parameters(bool has_rank) {
  const auto number = [](const char* name, const char* fallback, double min, double max,
                         const char* help) {
    return Parameter{.name = name,
                     .fallback = fallback,
                     .choices = {},
                     .min = min,
                     .max = max,
                     .whole = true,
                     .help = help};
  };
  std::vector<Parameter> parameters = {number("min", "0", 0, 0x1p53, "least entries"),
                                       number("max", "9007199254740992", 0, 0x1p53, "most entries"),
                                       number("min_rank", "0", 0, 64, "least dimensions"),
                                       number("max_rank", "64", 0, 64, "most dimensions")};
  parameters.push_back({.name = "optional",
                        .fallback = "off",
                        .choices = {"on", "off"},
                        .help = "on: it may fit no tensor"});
  if (has_rank) parameters.push_back(number("rank", "", 1, 65536, "columns of a factor"));
  return parameters;
}

}  // namespace

std::size_t Tensor::count() const {
  std::size_t product = 1;
  for (const std::uint64_t extent : shape)
    if (__builtin_mul_overflow(product, extent, &product))
      throw UsageError("tensor '" + name + "' has more entries than can be counted");
  return product;
}

std::size_t count_of(const Model& model) {
  std::size_t sum = 0;
  for (const Tensor& tensor : model)
    if (__builtin_add_overflow(sum, tensor.count(), &sum) || sum > kMostEntries)
      throw UsageError("the model has more entries than can be counted");
  return sum;
}

const std::vector<LayoutInfo>& layouts() { return registry().all(); }

RegisterLayout::RegisterLayout(LayoutInfo info) { registry().add(std::move(info)); }

Slice merge(std::span<const Slice> slices) {
  if (slices.size() == 1) return slices[0];
  Slice all = slices[0];
  all.name += ".." + slices.back().name;
  all.count = slices.back().offset + slices.back().count - all.offset;
  all.rows = all.count;
  all.cols = 1;
  return all;
}

bool Rule::fits(const Tensor& tensor) const {
  const std::size_t count = tensor.count(), rank = tensor.shape.size();
  return count >= min_count && count <= max_count && rank >= min_rank && rank <= max_rank &&
         fnmatch(name.c_str(), tensor.name.c_str(), 0) == 0;
}

Rule parse_rule(std::string_view text) {
  const RuleText cut = cut_rule(text);
  if (!cut.op && !cut.has_rank)
    throw UsageError("rule '" + std::string(text) +
                     "' must end in op=SPEC, as in 'name=*.bias,op=identity', or have a rank, as "
                     "in 'name=fc1.weight,rank=4'");
  const Args args("rule", rule_parameters(cut.has_rank), cut.numbers);
  return {.op = parse_operator(cut.op.value_or("identity")),
          .rank = cut.has_rank ? args.whole("rank") : 0,
          .name = cut.name,
          .min_count = args.whole("min"),
          .max_count = args.whole("max"),
          .min_rank = args.whole("min_rank"),
          .max_rank = args.whole("max_rank"),
          .optional = args.text("optional") == "on",
          .text = std::string(text)};
}

void require_fitting(std::span<const Rule> rules, const Model& model) {
  constexpr std::size_t kShown = 5;
  for (const Rule& rule : rules) {
    if (rule.optional ||
        std::ranges::any_of(model, [&](const Tensor& tensor) { return rule.fits(tensor); }))
      continue;
    std::vector<std::string> tensors;
    for (std::size_t i = 0; i < std::min(model.size(), kShown); ++i)
      tensors.push_back(model[i].name + " " + shape_text(model[i].shape));
    throw UsageError(
        "rule '" + rule.text + "' fits no tensor of the model, which has " + join(tensors) +
        (model.size() > kShown ? " and " + std::to_string(model.size() - kShown) + " more" : "") +
        "; a rule with optional=on may fit none");
  }
}

Plan make_plan(const Model& model, std::string_view layout, const Operator& op,
               std::span<const Rule> rules) {
  const auto stages = split_chain(layout);
  if (stages.size() != 1)
    throw UsageError("a layout is one word, not '" + std::string(layout) + "'");
  const LayoutInfo& info = registry().at(stages[0].name);
  const Args args(info.name, info.parameters, stages[0].args);

  Plan plan;
  Layout tensors = slices_of(model);
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < model.size(); ++i) {
    const auto rule = std::ranges::find_if(rules, [&](const Rule& r) { return r.fits(model[i]); });
    wanted.push_back(index_in(plan.operators, rule == rules.end() ? op : rule->op));
    if (rule != rules.end()) tensors[i].rank = rule->rank;
  }
  const auto alike = [&](std::size_t a, std::size_t b) {
    return wanted[a] == wanted[b] && tensors[a].rank == tensors[b].rank;
  };
  for (std::size_t from = 0, to = 0; from < tensors.size(); from = to) {
    while (to < tensors.size() && alike(from, to)) ++to;
    info.cut(std::span(tensors).subspan(from, to - from), args, plan.layout);
    plan.operator_of.resize(plan.layout.size(), wanted[from]);
  }
  return plan;
}

}  // namespace laconic
