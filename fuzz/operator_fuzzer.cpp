// Operators on hostile sections and on any floats.
// Input: u16 selects the operator, u16 the count, the rest is the section and, read as floats, an
// array to encode; and, for operators to which rows and columns count, what a matrix is made of.
#include <algorithm>
#include <cmath>

#include "fuzz/fuzz.h"

namespace laconic::fuzz {
namespace {

constexpr std::size_t kMostEntries = 2 * 4096 + 100;  // three blocks; more only makes slow runs
const Keys kKeys = make_keys(1, 2, 3);

bool all_finite(std::span<const float> x) {
  return std::ranges::all_of(x, [](float value) { return std::isfinite(value); });
}

// The entries of a section that is good, block by block.
std::vector<float> by_blocks(const Operator& op, ByteView section, std::size_t count,
                             Scratch& scratch) {
  Decoder decoder;
  op.open(section, count, kKeys, scratch, decoder);
  std::vector<float> y(count);
  for (std::size_t from = 0; from < count; from += kBlock)
    decoder.add(from, std::min(count, from + kBlock), 1, y.data() + from);
  return y;
}

// check and add agree; what they let through is finite, what they refuse changes nothing.
void decode(const Operator& op, ByteView section, std::size_t count) {
  Scratch scratch;
  const bool good = accepts([&] { op.check(section, count, kKeys, scratch); });
  std::vector<float> y(count);
  const bool added = accepts([&] { op.add(section, 1, y, kKeys, scratch); });
  require(good == added, "check and add agree");
  if (added) {
    require(all_finite(y), "a section that checks is finite");
    require(by_blocks(op, section, count, scratch) == y, "blocks add up to the whole");
  } else {
    require(std::ranges::count(y, 0.0F) == std::ssize(y), "a refused section adds nothing");
  }
}

// Any floats come out as a section that its own operator takes, or are refused for NaN or Inf.
void encode(const Operator& op, ByteView bytes) {
  std::vector<float> x(bytes.size() / sizeof(float));
  if (!x.empty()) std::memcpy(x.data(), bytes.data(), x.size() * sizeof(float));
  Scratch scratch;
  Buffer out;
  out.append_number(std::uint8_t{0});
  const bool finite = op.encode(x, out, kKeys, scratch);
  require(finite == all_finite(x), "exactly NaN and Inf are refused");
  if (!finite) {
    require(out.size() == 1, "a refused array appends nothing");
    return;
  }
  const ByteView section = out.view(1);
  require(section.size() <= op.max_size(x.size()), "no section is larger than max_size");
  std::vector<float> y(x.size());
  require(accepts([&] { op.check(section, x.size(), kKeys, scratch); }),
          "an operator takes what it wrote");
  op.add(section, 1, y, kKeys, scratch);
  require(all_finite(y), "finite entries stay finite");

  std::vector<float> left(x.size());
  Buffer remembered;
  const Source source{.fresh = std::span(x), .left = std::span(left)};
  require(op.encode(source, remembered, kKeys, scratch).finite &&
              std::ranges::equal(section, remembered.view()),
          "what is left changes no byte");
  for (std::size_t i = 0; i < x.size(); ++i)
    require(left[i] == x[i] - y[i], "what is left is what was not sent");

  Buffer again;
  require(op.encode(x, again, kKeys, scratch) && std::ranges::equal(section, again.view()),
          "the same keys give the same bytes");
}

// A matrix that is nearly a sum of up to four outer products: shape, size, factors and what is left
// of it are bytes of the input, over and over.
struct Matrix {
  std::size_t cols;
  std::vector<float> x;

  explicit Matrix(ByteView bytes) {
    std::size_t at = 0;
    const auto next = [&] { return static_cast<int>(bytes[at++ % bytes.size()]); };
    const std::size_t rows = 40 + static_cast<std::size_t>(next()) * 2;
    cols = 16 + static_cast<std::size_t>(next());
    const auto rank = static_cast<std::size_t>(next() % 5), dead = static_cast<std::size_t>(next());
    const int exponent = next() / 2 - 64, noise = next() % 64;
    std::vector<int> factors(rank * (rows + cols));
    for (int& value : factors) value = next() - 128;
    x.resize(rows * cols);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t row = i / cols, col = i % cols;
      if (dead > 0 && (row % dead == 1 || col % dead == 2)) continue;
      int sum = (next() - 128) * noise;
      for (std::size_t k = 0; k < rank; ++k)
        sum += 16 * factors[k * rows + row] * factors[rank * rows + k * cols + col];
      x[i] = std::ldexp(static_cast<float>(sum), exponent);
    }
  }
};

// It comes out as a section that its own operator takes, the same by any number of threads.
void encode_matrix(const Operator& op, ByteView bytes) {
  if (bytes.size() < 16 || bytes[0] % 4 != 0) return;  // they take longer than the rest
  const Matrix matrix(bytes);
  static Scratch one, two(2);
  Buffer out, again;
  const Source source{.fresh = std::span<const float>(matrix.x), .cols = matrix.cols};
  require(op.encode(source, out, kKeys, one).finite, "a finite matrix is taken");
  require(
      op.encode(source, again, kKeys, two).finite && std::ranges::equal(out.view(), again.view()),
      "threads change no byte of a matrix");
  require(out.size() <= op.max_size(matrix.x.size()), "no section is larger than max_size");
  std::vector<float> y(matrix.x.size());
  require(accepts([&] { op.add(out.view(), 1, y, kKeys, one); }),
          "an operator takes what it wrote of a matrix");
  require(all_finite(y), "finite matrices stay finite");
}

}  // namespace
}  // namespace laconic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace laconic::fuzz;
  Input in(data, size);
  const auto& op = operator_at(in.take<std::uint16_t>());
  const std::size_t count = in.take<std::uint16_t>() % kMostEntries;
  decode(op, in.rest(), count);
  encode(op, in.rest());
  if (op.spec().find("dither") == 0 || op.spec().find("contexts") != std::string::npos)
    encode_matrix(op, in.rest());
  return 0;
}
