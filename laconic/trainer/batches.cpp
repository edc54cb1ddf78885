// Shuffles by key.
#include "laconic/trainer/batches.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "laconic/base/errors.h"

namespace laconic::trainer {
namespace {

// Fisher-Yates; the upper half of a 64-bit product picks without a division, with a bias below
// 2^-32.
void permute(std::span<std::uint32_t> order, Key key) {
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>((key.bits(i) >> 32) * i >> 32)]);
}

}  // namespace

Batches::Batches(std::size_t images, std::size_t workers, std::size_t batch, Split split,
                 std::uint64_t seed)
    : workers_(workers),
      batch_(batch),
      split_(split),
      key_(Key(seed).fork(0x64617461)),
      steps_(batch * workers == 0 ? 0 : images / (batch * workers)),
      dealt_(images) {
  if (steps_ == 0)
    throw UsageError(std::to_string(workers) + " workers with batches of " + std::to_string(batch) +
                     " need more than the " + std::to_string(images) + " images there are");
  std::iota(dealt_.begin(), dealt_.end(), 0U);
  permute(dealt_, key_.fork(0));
}

void Batches::shuffle(std::uint64_t epoch) {
  if (epoch == epoch_) return;
  epoch_ = epoch;
  order_ = dealt_;
  const Key key = key_.fork(epoch + 1);
  if (split_ == Split::reshuffled) return permute(order_, key);
  const std::size_t share = order_.size() / workers_;
  for (std::size_t worker = 0; worker < workers_; ++worker)
    permute(std::span(order_).subspan(worker * share, share), key.fork(worker));
}

std::span<const std::uint32_t> Batches::at(std::uint64_t step, std::size_t worker) {
  shuffle(step / steps_);
  const auto in_epoch = static_cast<std::size_t>(step % steps_);
  const std::size_t from = split_ == Split::reshuffled
                               ? (in_epoch * workers_ + worker) * batch_
                               : worker * (order_.size() / workers_) + in_epoch * batch_;
  return std::span(order_).subspan(from, batch_);
}

}  // namespace laconic::trainer
