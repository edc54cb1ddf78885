// What adapt chooses from: each variant of one compressor on each tensor, measured.
#pragma once

#include "laconic/planner/adaptive.h"

namespace laconic {

// What one variant makes of one tensor, in the mean over all gradients.
struct Measured {
  double bytes = 0, error = 0;
};

class Trials {
 public:
  virtual ~Trials() = default;

  // By tensor, from small to large; the last may stand for all that are larger.
  const std::vector<std::vector<Measured>>& measured() const { return measured_; }
  // In which each tensor goes by one of its variants.
  virtual Recipe recipe_of(const std::vector<std::size_t>& variants) const = 0;
  // As it was given.
  virtual Recipe layer_wise() const = 0;
  virtual std::optional<Recipe> entire_model() const { return std::nullopt; }
  // What a recipe sends and loses.
  virtual Outcomes of_recipe(const Recipe& recipe) = 0;

 protected:
  std::vector<std::vector<Measured>> measured_;
};

std::unique_ptr<Trials> try_operators(const std::string& op, const Situation& situation);
std::unique_ptr<Trials> try_ranks(const std::string& exchange, const Situation& situation);

// Whether a spec names the exchange whose ranks are tried; and that exchange with each of them.
bool is_of_ranks(std::string_view spec);
std::vector<std::string> variants_of_ranks(std::string_view spec);

// A glob that fits this name alone. Throws UsageError for a name that no rule can have.
std::string only(const std::string& name);
// With four digits.
std::string number_text(double value);

}  // namespace laconic
