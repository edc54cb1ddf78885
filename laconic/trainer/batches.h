// Which images a worker sees in a step: a function of seed and step alone, so a resumed run goes on
// with the same.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/base/key.h"

namespace laconic::trainer {

// Which images are whose.
struct Split {
  enum class Kind {
    reshuffled,  // all images dealt anew to the workers in every epoch
    sharded,     // each worker keeps its own share
    classes,     // about `number` classes to a worker: McMahan et al. (arXiv 1602.05629), section 3
    dirichlet,   // of each class shares of a Dirichlet draw: Hsu et al. (arXiv 1909.06335)
  };
  static const Split reshuffled, sharded;

  Kind kind = Kind::reshuffled;
  double number = 0;  // of classes, or Dirichlet's concentration

  bool by_label() const { return kind == Kind::classes || kind == Kind::dirichlet; }

  // "reshuffled", "sharded", "classes:2" or "dirichlet:0.1", and back. Throws UsageError for
  // anything else.
  static Split parse(std::string_view text);
  std::string text() const;

  friend bool operator==(const Split&, const Split&) = default;
};
inline constexpr Split Split::reshuffled{}, Split::sharded{.kind = Kind::sharded};

class Batches {
 public:
  // `labels` are the images' classes, for splits by label. Throws UsageError when there are too few
  // images for one step.
  Batches(std::size_t images, std::size_t workers, std::size_t batch, Split split,
          std::uint64_t seed, std::span<const std::uint8_t> labels = {});

  std::uint64_t steps_per_epoch() const { return steps_; }

  // The images of one worker in one step; the last, incomplete step of an epoch is left out. Valid
  // until the next call.
  std::span<const std::uint32_t> at(std::uint64_t step, std::size_t worker);

  // The images that only this worker has, for splits by label.
  std::span<const std::uint32_t> of(std::size_t worker) const { return pools_[worker]; }

 private:
  void shuffle(std::uint64_t epoch);
  void deal_classes(std::span<const std::uint8_t> labels);
  void deal_dirichlet(std::span<const std::uint8_t> labels);
  void draw_pools(std::span<const std::uint8_t> labels, const Key& key);
  bool all_have_a_batch() const;
  std::span<const std::uint32_t> from_pool(std::uint64_t step, std::size_t worker);

  std::size_t workers_, batch_;
  Split split_;
  Key key_;
  std::uint64_t steps_, epoch_ = ~std::uint64_t{0};
  std::vector<std::uint32_t> dealt_, order_;
  std::vector<std::vector<std::uint32_t>> pools_;  // by worker, where images go by label
  std::size_t worker_ = 0;                         // whose pool order_ is, in pass epoch_
};

}  // namespace laconic::trainer
