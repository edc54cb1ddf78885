// Lanes: the ways in which a step's gradient may travel, over one memory. docs/guard.md.
#pragma once

#include "laconic/exchange/exchange.h"

namespace laconic {

// Around a recipe's exchange, with a lane of plain sums and, where it goes, one of 16 bits.
class Lanes : public Around {
 public:
  // Null where the exchange has no lanes beside its own: it stays as it is.
  static std::unique_ptr<Lanes> make(const Setup& setup, std::unique_ptr<Exchange>& exchange);

  std::array<bool, kLanes> there() const;

  // Between steps: the lane of the next.
  void take(Lane lane) { lane_ = lane; }
  Lane lane() const { return lane_; }

  const Plan& plan_at(std::uint64_t step) const override;
  std::unique_ptr<Unit> make_unit() override;
  std::unique_ptr<Unit> make_unit(Lane lane);
  bool framed() const override { return lane_ == Lane::recipe ? inner_->framed() : true; }

 private:
  Lanes(const Setup& setup, std::unique_ptr<Exchange> inner, std::unique_ptr<Exchange> half);

  Transport& transport_;
  std::uint64_t seed_;
  std::unique_ptr<Exchange> half_;             // over the inner one's memory; may be null
  mutable std::map<const Plan*, Plan> plain_;  // plans of the recipe, with the floats as they are
  Lane lane_ = Lane::recipe;
};

}  // namespace laconic
