// Synchronous training: every update is one with the mean gradient.
#include "laconic/methods/kinds.h"

namespace laconic {
namespace {

class Synchronous : public Method {
 public:
  Synchronous(const Model& model, std::unique_ptr<Aggregator> aggregator)
      : model_(model), aggregator_(std::move(aggregator)) {}

  Aggregator* gradients() override { return aggregator_.get(); }

  StepStats before_update(std::span<float> parameters, std::span<float> gradient,
                          const StepInfo& given) override {
    StepInfo info = given;
    info.parameters = parameters;
    info.momentum = {};  // all ranks have the same: no rank may mask it by what it alone has sent
    return aggregator_->average(gradient, info);
  }
  StepStats after_update(std::span<float>, const StepInfo&) override { return {}; }

  Outcome regroup(const Agreement& agreement, std::span<float>, Transport& among) override {
    return go_on_among(agreement, among, aggregator_);
  }

  bool replicas_equal() const override { return true; }
  double residual_norm() const override { return aggregator_->residual_norm(); }

  Saved save(std::span<const float> parameters) const override {
    return save_both(model_, parameters, &Saved::common, *aggregator_);
  }
  void load(const Saved& saved, std::span<float> parameters) override {
    load_both(saved, model_, parameters, &Saved::common, *aggregator_);
  }

 private:
  Model model_;
  std::unique_ptr<Aggregator> aggregator_;
};

}  // namespace

std::unique_ptr<Method> make_synchronous(const Model& model,
                                         std::unique_ptr<Aggregator> aggregator) {
  return std::make_unique<Synchronous>(model, std::move(aggregator));
}

}  // namespace laconic
