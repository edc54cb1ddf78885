// Buckets of tensors.
#include "laconic/trainer/buckets.h"

namespace laconic::trainer {

Buckets::Buckets(const Model& model, std::uint64_t bytes) : bucket_of_(model.size()) {
  std::uint64_t gathered = 0;
  for (std::size_t tensor = model.size(); tensor-- > 0;) {
    if (buckets_.empty() || (bytes > 0 && gathered >= bytes)) {
      buckets_.emplace_back();
      gathered = 0;
    }
    buckets_.back().push_back(tensor);
    bucket_of_[tensor] = buckets_.size() - 1;
    gathered += sizeof(float) * model[tensor].count();
  }
  begin();
}

void Buckets::begin() {
  next_ = 0;
  missing_.clear();
  for (const auto& bucket : buckets_) missing_.push_back(bucket.size());
}

void Buckets::ready(std::size_t tensor,
                    const std::function<void(std::span<const std::size_t>)>& full) {
  --missing_[bucket_of_[tensor]];
  while (next_ < buckets_.size() && missing_[next_] == 0) full(buckets_[next_++]);
}

void Buckets::rest(const std::function<void(std::span<const std::size_t>)>& full) {
  while (next_ < buckets_.size()) full(buckets_[next_++]);
}

}  // namespace laconic::trainer
