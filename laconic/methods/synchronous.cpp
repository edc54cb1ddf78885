// Synchronous training: every step is one of the mean gradient.
#include <algorithm>

#include "laconic/methods/methods.h"

namespace laconic {
namespace {

class Synchronous : public Method {
 public:
  Synchronous(const Model& model, std::unique_ptr<Optimizer> optimizer,
              std::unique_ptr<Aggregator> aggregator)
      : model_(model), optimizer_(std::move(optimizer)), aggregator_(std::move(aggregator)) {}

  StepStats step(std::span<float> parameters, std::span<float> gradient,
                 const StepInfo& given) override {
    StepInfo info = given;
    info.parameters = parameters;
    StepStats stats = aggregator_->average(gradient, info);
    Stopwatch watch;
    if (stats.finite) optimizer_->update(parameters, gradient, info.lr, info.step);
    stats.update_seconds = watch.lap();
    return stats;
  }

  bool replicas_equal() const override { return true; }

  Saved save(std::span<const float> parameters) const override {
    Saved saved;
    save_tensors(kParameters, model_, parameters, saved.common);
    put_under(kOptimizer, optimizer_->save(), saved.common);
    put_under(kExchange, aggregator_->save(), saved.own);
    return saved;
  }
  void load(const Saved& saved, std::span<float> parameters) override {
    const auto values = tensors_among(kParameters, model_, saved.common);
    optimizer_->load(take_under(kOptimizer, saved.common));
    aggregator_->load(take_under(kExchange, saved.own));
    std::ranges::copy(values, parameters.begin());
  }

 private:
  Model model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Aggregator> aggregator_;
};

}  // namespace

std::unique_ptr<Method> make_synchronous(const Model& model, std::unique_ptr<Optimizer> optimizer,
                                         std::unique_ptr<Aggregator> aggregator) {
  return std::make_unique<Synchronous>(model, std::move(optimizer), std::move(aggregator));
}

}  // namespace laconic
