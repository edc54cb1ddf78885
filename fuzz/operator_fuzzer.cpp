// Operators on hostile sections and on any floats.
// Input: u16 selects the operator, u16 the count, the rest is the section and, read as floats, an
// array to encode.
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

}  // namespace
}  // namespace laconic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace laconic::fuzz;
  Input in(data, size);
  const auto& op = operator_at(in.take<std::uint16_t>());
  const std::size_t count = in.take<std::uint16_t>() % kMostEntries;
  decode(op, in.rest(), count);
  encode(op, in.rest());
  return 0;
}
