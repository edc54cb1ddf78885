// One step: gradients are averaged as they come, then the update, then what comes after it.
#include "laconic/trainer/descent.h"

#include <algorithm>

namespace laconic::trainer {
namespace {

// A bucket is what travels together, moved by a thread that computes no gradients. Rounds that are
// under way between steps are moved by the worker itself: it talks to others meanwhile, and a
// transport has one user at a time.
Agreement with_buckets(Agreement agreement, std::uint64_t bytes) {
  if (bytes == 0) return agreement;
  if (agreement.recipe.overlap == 0) agreement.engine = Engine::thread;
  agreement.unit_bytes = static_cast<std::size_t>(bytes);
  return agreement;
}

}  // namespace

Descent::Descent(Agreement agreement, const OptimizerOptions& optimizer, std::uint64_t bucket_bytes,
                 std::span<const float> start, Transport& transport)
    : optimizer_(make_optimizer(optimizer, agreement.model)),
      buckets_(agreement.model, bucket_bytes) {
  require_one_momentum(agreement.recipe, optimizer.has_momentum());
  for (std::size_t offset = 0; const Tensor& tensor : agreement.model) {
    offsets_.push_back(offset);
    offset += tensor.count();
  }
  method_ = make_method(with_buckets(std::move(agreement), bucket_bytes), start, transport);
  aggregator_ = method_->gradients();
}

void Descent::begin(std::span<float> parameters, std::span<float> gradient, const StepInfo& info) {
  parameters_ = parameters;
  gradient_ = gradient;
  info_ = info;
  info_.parameters = parameters;
  buckets_.begin();
  if (aggregator_) aggregator_->begin(info_);
}

void Descent::submit(std::span<const std::size_t> tensors) {
  arrays_.clear();
  for (const std::size_t tensor : tensors) arrays_.push_back(gradient_.data() + offsets_[tensor]);
  aggregator_->submit({.tensors = tensors, .data = arrays_});
}

void Descent::ready(std::size_t tensor) {
  if (aggregator_) buckets_.ready(tensor, [this](auto bucket) { submit(bucket); });
}

StepStats Descent::before_update() {
  if (!aggregator_) return method_->before_update(parameters_, gradient_, info_);
  buckets_.rest([this](auto bucket) { submit(bucket); });
  const StepStats stats = aggregator_->finish();
  if (stats.finite) aggregator_->commit();
  return stats;
}

StepStats Descent::end() {
  StepStats stats = before_update();
  Stopwatch watch;
  if (stats.finite) optimizer_->update(parameters_, gradient_, info_.lr);
  stats.update_seconds += watch.lap();
  info_.momentum = optimizer_->momentum();
  stats = sum_of(stats, method_->after_update(parameters_, info_));
  if (method_->set_back()) optimizer_->reset();
  return stats;
}

void Descent::abandon(std::string_view why) {
  if (aggregator_) aggregator_->abort(why);
}

StepStats Descent::finish(std::span<float> parameters, std::span<float> gradient,
                          const StepInfo& given) {
  if (aggregator_ && given.plain && aggregator_->owes()) {
    std::ranges::fill(gradient, 0.0F);
    begin(parameters, gradient, given);
    return end();
  }
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

}  // namespace laconic::trainer
