// One step: before the update, the update, after the update.
#include "laconic/trainer/descent.h"

namespace laconic::trainer {

Descent::Descent(const Agreement& agreement, const OptimizerOptions& optimizer,
                 std::span<const float> start, Transport& transport)
    : optimizer_(make_optimizer(optimizer, agreement.model)) {
  require_one_momentum(agreement.recipe, optimizer.has_momentum());
  method_ = make_method(agreement, start, transport);
}

StepStats Descent::step(std::span<float> parameters, std::span<float> gradient,
                        const StepInfo& given) {
  StepInfo info = given;
  StepStats stats = method_->before_update(parameters, gradient, info);
  Stopwatch watch;
  if (stats.finite) optimizer_->update(parameters, gradient, info.lr);
  stats.update_seconds += watch.lap();
  info.momentum = optimizer_->momentum();
  stats = sum_of(stats, method_->after_update(parameters, info));
  if (method_->set_back()) optimizer_->reset();
  return stats;
}

StepStats Descent::finish(std::span<float> parameters, const StepInfo& given) {
  StepInfo info = given;
  info.momentum = optimizer_->momentum();
  return method_->finish(parameters, info);
}

Saved Descent::save(std::span<const float> parameters) const {
  Saved saved = method_->save(parameters);
  put_under(kOptimizer, optimizer_->save(), saved.*optimizer_part());
  return saved;
}

void Descent::load(const Saved& saved, std::span<float> parameters) {
  optimizer_->load(take_under(kOptimizer, saved.*optimizer_part()));
  method_->load(saved, parameters);
}

StepStats sum_of(const StepStats& a, const StepStats& b) {
  StepStats sum = a;
  sum.payload_bytes += b.payload_bytes;
  sum.wire_bytes += b.wire_bytes;
  sum.traffic_bytes += b.traffic_bytes;
  sum.rounds += b.rounds;
  sum.dense_bytes += b.dense_bytes;
  sum.up_bytes += b.up_bytes;
  sum.down_bytes += b.down_bytes;
  sum.compress_seconds += b.compress_seconds;
  sum.exchange_seconds += b.exchange_seconds;
  sum.decompress_seconds += b.decompress_seconds;
  sum.update_seconds += b.update_seconds;
  sum.finite &= b.finite;
  return sum;
}

}  // namespace laconic::trainer
