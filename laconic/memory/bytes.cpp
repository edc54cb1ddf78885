// Residuals as bytes: what is written at once, and groups that wait.
#include "laconic/memory/bytes.h"

#include <algorithm>

namespace laconic {

using kernels::kRounded;

ByteArrays::ByteArrays(const Places& places) : places_(places) {
  for (std::size_t t = 0; t < places.tensors(); ++t)
    groups_.push_back(groups_.back() + (places.count(t) + kRounded - 1) / kRounded);
  for (const unsigned which : {0U, 1U}) {
    std::ranges::fill(codes_[which].reset(places.entries()), std::int8_t{0});
    std::ranges::fill(exponents_[which].reset(groups_.back()), std::uint8_t{0});
  }
}

Piece ByteArrays::piece(std::size_t tensor, std::size_t from, std::size_t count,
                        unsigned which) const {
  return {.count = count,
          .data = codes_[which].data() + places_.begin(tensor) + from,
          .dtype = Dtype::float32,
          .exponents = exponents_[which].data() + groups_[tensor] + from / kRounded,
          .inside = from % kRounded};
}

void ByteArrays::write(std::size_t tensor, std::size_t from, std::span<const float> values,
                       unsigned which, Key own) {
  const std::size_t end = from + values.size();
  const std::size_t head = std::min(end, (from + kRounded - 1) / kRounded * kRounded);
  const std::size_t tail =
      end == places_.count(tensor) ? end : std::max(head, end / kRounded * kRounded);
  const auto part = [&](std::size_t begin, std::size_t finish) {
    return values.subspan(begin - from, finish - begin);
  };
  share(tensor, from, part(from, head), own);
  round(tensor, head, part(head, tail), which, own);
  share(tensor, tail, part(tail, end), own);
}

void ByteArrays::share(std::size_t tensor, std::size_t from, std::span<const float> values,
                       Key own) {
  if (values.empty()) return;
  Shared& group = shared_[groups_[tensor] + from / kRounded];
  group.written = true;
  group.own = own;
  std::ranges::copy(values, group.values + from % kRounded);
}

// Whole groups of a tensor, the last of which may be shorter.
void ByteArrays::round(std::size_t tensor, std::size_t from, std::span<const float> values,
                       unsigned which, Key own) {
  if (values.empty()) return;
  const std::size_t group = groups_[tensor] + from / kRounded;
  const std::size_t end = group + (values.size() + kRounded - 1) / kRounded;
  for (auto at = shared_.lower_bound(group); at != shared_.end() && at->first < end; ++at)
    at->second.written = false;  // by other slices, in a step that came to nothing
  const std::size_t place = places_.begin(tensor) + from;
  kernels::round_to_bytes(values, own, place, codes_[which].data() + place,
                          exponents_[which].data() + group);
}

void ByteArrays::close(std::size_t tensor, unsigned which) {
  const std::size_t first = groups_[tensor];
  for (auto at = shared_.lower_bound(first); at != shared_.end() && at->first < groups_end(tensor);
       ++at) {
    auto& [group, shared] = *at;
    if (!shared.written) continue;
    const std::size_t from = (group - first) * kRounded;
    round(tensor, from,
          std::span(shared.values).first(std::min(kRounded, places_.count(tensor) - from)), which,
          shared.own);
  }
}

}  // namespace laconic
