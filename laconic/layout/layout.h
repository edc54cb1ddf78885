// How a model is cut: slices, each compressed as one. Layer-wise, entire-model or fused is a choice
// of layout.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/base/args.h"
#include "laconic/operators/operator.h"

namespace laconic {

// One tensor of a model. Tensors lie one after the other in the flat gradient, in this order.
struct Tensor {
  std::string name;
  std::vector<std::uint64_t> shape;

  std::size_t count() const;
};
using Model = std::vector<Tensor>;

std::size_t count_of(const Model& model);

// A part of the model handled as one. As a matrix it has `rows` (first dimension) times `cols` (all
// others); a part that is not exactly one tensor, and a tensor of one dimension, is a single
// column.
struct Slice {
  std::string name;
  std::size_t offset = 0, count = 0;  // position in the whole model, entries
  std::size_t rows = 0, cols = 1;
  std::size_t rank = 0;  // of the factors that a rule wants for it; 0: none does
};
using Layout = std::vector<Slice>;

// A layout's entry in the table. `cut` is given one run of neighbouring tensors that share an
// operator, as one slice per tensor, and appends the slices it makes of them.
struct LayoutInfo {
  std::string name, summary, paper;
  std::vector<Parameter> parameters;
  std::function<void(std::span<const Slice> tensors, const Args&, Layout& out)> cut;
};

const std::vector<LayoutInfo>& layouts();

struct RegisterLayout {
  explicit RegisterLayout(LayoutInfo info);
};

// The slice that covers neighbouring slices.
Slice merge(std::span<const Slice> slices);

// Which operator a tensor gets, or which rank where it travels as factors, by name, size and number
// of dimensions. The first rule that fits decides.
struct Rule {
  Operator op;
  std::size_t rank = 0;    // 0: it names none
  std::string name = "*";  // glob over the tensor's name
  std::size_t min_count = 0, max_count = std::numeric_limits<std::size_t>::max();
  std::size_t min_rank = 0, max_rank = std::numeric_limits<std::size_t>::max();
  bool optional = false;  // it may fit no tensor of a model
  std::string text = {};  // as it was given

  bool fits(const Tensor& tensor) const;
};

// Examples: parse_rule("name=*.bias,max=1024,op=identity"), parse_rule("name=fc1.weight,rank=4").
// Keys: name, min, max, min_rank, max_rank, optional; then rank, or op, which comes last.
Rule parse_rule(std::string_view text);

// Throws UsageError for a rule that fits no tensor, unless it is optional: a name is misspelt, or
// the rule is for another model.
void require_fitting(std::span<const Rule> rules, const Model& model);

// A layout together with the operator of each slice.
struct Plan {
  Layout layout;
  std::vector<Operator> operators;       // the distinct ones
  std::vector<std::size_t> operator_of;  // for each slice, an index into operators

  const Operator& op(std::size_t slice) const { return operators[operator_of[slice]]; }
};

// Example: make_plan(model, "fused:4M", parse_operator("natural"),
// {parse_rule("max=1000,op=identity")}). Neighbouring tensors are merged only when they share an
// operator and a rank.
Plan make_plan(const Model& model, std::string_view layout, const Operator& op,
               std::span<const Rule> rules = {});

}  // namespace laconic
