// The formulas, from docs/frame.md.
#include "cli/formulas.h"

#include <algorithm>
#include <iterator>

namespace laconic::cli {
namespace {

struct Formula {
  std::string_view group, name, bits;
};

constexpr Formula kFormulas[] = {
    {"operators", "adaptive", "varint(8 k + codec) + P, and the quantiser on k"},
    {"operators", "bucket", "the quantiser's, for each of the ceil(n / size) buckets"},
    {"operators", "chunk", "8 + P, and the quantiser on k; k = kept for each run of size entries"},
    {"operators", "dithering", "32 + levels with s = levels"},
    {"operators", "entropy", "each plane's Huffman code, at most the plane + 24 per 262,144 bytes"},
    {"operators", "grid", "32 + levels, of which most are 0 and 1: about 2 n at omega = 1/8"},
    {"operators", "half", "16 n + 8 ceil(n / 4096); bf16: 16 n"},
    {"operators", "identity", "32 n"},
    {"operators", "levels", "8 + the smallest level code; the named one without the 8"},
    {"operators", "natural", "9 n; 8 bits: 8 n + 8 ceil(n / 4096)"},
    {"operators", "qsgd", "32 + levels with s = levels"},
    {"operators", "randomk", "0, and the quantiser on k = ceil(density n)"},
    {"operators", "sbc", "8 + P + 32, k = ceil(density n)"},
    {"operators", "shrink", "0"},
    {"operators", "sign", "32 + n"},
    {"operators", "stc", "8 + P + 32 + k, k = ceil(density n)"},
    {"operators", "terngrad", "32 + levels with s = 1: at most 8 + 8 ceil(n / 5)"},
    {"operators", "threshold", "varint(8 k + codec) + P, and the quantiser on k"},
    {"operators", "topk", "8 + P, and the quantiser on k = ceil(density n)"},
    {"operators", "uniform", "64 + bits n; absmax: 32 + bits n"},
    {"index_codecs", "bitmap", "n"},
    {"index_codecs", "fano", "k l + k + floor((n - 1) / 2^l), l = floor(log2(n / k))"},
    {"index_codecs", "fixed", "k ceil(log2 n); of full chunks k ceil(log2 size)"},
    {"index_codecs", "omega", "sum of omega(gap)"},
    {"index_codecs", "rice",
     "k (b + 1/(1 - (1-p)^2^b)) on average; p = k/n, b = 1 + floor(log2(ln 0.618 / ln(1-p)))"},
    {"index_codecs", "varint", "8 k where gaps are at most 128, 8 more for every 7 bits beyond"},
    {"level_codecs", "elias", "varint(z) + sum of omega(gap) + 1 + omega(magnitude)"},
    {"level_codecs", "fixed", "n ceil(log2(2 s + 1))"},
    {"level_codecs", "sparse", "varint(8 z + codec) + P with k = z, z signs, Rice magnitudes"},
    {"level_codecs", "trits", "8 ceil(n / 5)"},
};

}  // namespace

std::string_view bits_formula(std::string_view group, std::string_view name) {
  const auto* const found = std::ranges::find_if(
      kFormulas, [&](const Formula& f) { return f.group == group && f.name == name; });
  return found == std::end(kFormulas) ? std::string_view() : found->bits;
}

}  // namespace laconic::cli
