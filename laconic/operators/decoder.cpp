// Opened sections, added stretch by stretch.
#include "laconic/operators/decoder.h"

#include "laconic/kernels/axpy.h"

namespace laconic {

void Decoder::reset(std::size_t count) {
  count_ = count;
  quantiser_.reset();
  planes_ = {};
  sparse_ = false;
  positions_.clear();
}

void Decoder::index_positions() {
  const std::size_t blocks = (count_ + kBlock - 1) / kBlock;
  const auto first = first_.reset(blocks + 1);
  std::size_t block = 0;
  for (std::uint32_t i = 0; i < positions_.size(); ++i)
    while (block * kBlock <= positions_[i]) first[block++] = i;
  std::fill(first.begin() + static_cast<std::ptrdiff_t>(block), first.end(),
            static_cast<std::uint32_t>(positions_.size()));
}

std::size_t Decoder::first_at(std::size_t position) const {
  if (position >= count_) return positions_.size();
  const std::size_t block = position / kBlock;
  if (position % kBlock == 0) return first_[block];
  const auto inside = positions_.view().subspan(first_[block], first_[block + 1] - first_[block]);
  return first_[block] +
         static_cast<std::size_t>(std::ranges::lower_bound(inside, position) - inside.begin());
}

void Decoder::add(std::size_t from, std::size_t to, float weight, float* y) const {
  if (from >= to) return;
  if (sparse_) {
    for (std::size_t i = first_at(from), end = first_at(to); i < end; ++i)
      y[positions_[i] - from] += weight * values_[i];
  } else if (quantiser_) {
    quantiser_->add(planes_, from, weight, {y, to - from});
  } else if (!planes_[0].empty()) {
    kernels::add_scaled(planes_[0].data() + from * sizeof(float), weight, {y, to - from});
  }
}

void open_plain(ByteView floats, Decoder& into) {
  into.reset(floats.size() / sizeof(float));
  into.planes_[0] = floats;
}

void open_zeros(std::size_t count, Decoder& into) { into.reset(count); }

}  // namespace laconic
