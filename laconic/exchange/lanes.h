// Lanes: the ways in which a step's gradient may travel, over one memory. docs/guard.md.
#pragma once

#include "laconic/exchange/exchange.h"

namespace laconic {

// Whether a guard chooses lanes; without one all steps go as the recipe says but those that are to
// be plain.
bool has_guard(const Setup& setup);

// Around a recipe's exchange, with a lane of plain sums and, where they go and a guard may want
// them, one of 16 bits and two of operators that promise the same and cost less or send less.
class Lanes : public Around {
 public:
  // Null where the exchange has no lanes beside its own: it stays as it is.
  static std::unique_ptr<Lanes> make(const Setup& setup, std::unique_ptr<Exchange>& exchange);

  std::array<bool, kLanes> there() const;
  // What a rank is about to send in a step by each; of the recipe's nobody knows.
  std::array<double, kLanes> bytes() const;

  // Between steps: the lane of the next.
  void take(Lane lane) { lane_ = lane; }
  Lane lane() const { return lane_; }

  const Plan& plan_at(std::uint64_t step) const override;
  std::unique_ptr<Unit> make_unit() override;
  std::unique_ptr<Unit> make_unit(Lane lane);
  bool framed() const override { return lane_ == Lane::recipe ? inner_->framed() : true; }

 private:
  // What moves a step by a lane, over the inner one's memory: null for the recipe's own, for plain
  // sums and where there is no such lane. And what a rank would send in a step.
  struct Other {
    std::unique_ptr<Route> route;
    double bytes = 0;
  };
  using Others = std::array<Other, kLanes>;
  static Others make_others(const Setup& setup, Exchange& exchange);
  Lanes(const Setup& setup, std::unique_ptr<Exchange> inner, Others others);

  Transport& transport_;
  std::uint64_t seed_;
  Others others_;
  mutable std::map<const Plan*, Plan> plain_;  // plans of the recipe, with the floats as they are
  Lane lane_ = Lane::recipe;
};

}  // namespace laconic
