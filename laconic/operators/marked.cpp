// Walking marks and values side by side.
#include "laconic/operators/marked.h"

#include "laconic/kernels/marks.h"
#include "laconic/kernels/ones.h"

namespace laconic {

void index_marks(std::span<const std::uint64_t> marks, std::size_t count,
                 Array<std::uint32_t>& first) {
  constexpr std::size_t kWords = kBlock / 64;  // of a block
  std::size_t sum = 0;
  for (std::uint32_t& number : first.reset((count + kBlock - 1) / kBlock + 1)) {
    number = static_cast<std::uint32_t>(sum);
    const std::size_t words = std::min(kWords, marks.size());
    sum += kernels::count_marks(marks.first(words));
    marks = marks.subspan(words);
  }
}

void Marked::add(std::size_t from, std::size_t to, float weight, float* y) const {
  float values[2 * kBlock + kernels::kSpareValues];  // decoded: those from `begin` up to `end`
  std::size_t begin = first[from / kBlock] / kBlock * kBlock, end = begin;
  for (std::size_t at = from; at < to; at += kBlock) {
    const std::size_t wanted = first[at / kBlock], last = first[at / kBlock + 1];
    while (end < last) {
      const std::size_t used = std::min(wanted, end) - begin, left = end - begin - used;
      std::copy_n(values + used, left, values);
      begin += used;
      const std::span<float> more(values + left, std::min(kBlock, first.back() - end));
      std::ranges::fill(more, 0.0F);
      quantiser.add(planes, end, 1, more);
      end += more.size();
    }
    kernels::add_marked(marks + at / 64, values + (wanted - begin), weight,
                        {y + (at - from), std::min(kBlock, to - at)});
  }
}

void Selector::write_marks(std::span<const std::uint64_t> marks, std::size_t kept,
                           std::size_t count, Positions& positions, Buffer& out) const {
  kernels::positions_of(marks, positions.reset(kept + kernels::kSpareOnes).data());
  write(positions.view().first(kept), count, out);
}

}  // namespace laconic
