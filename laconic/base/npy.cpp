// Reading and writing of .npy: a magic, a header in Python's syntax, the entries.
#include "laconic/base/npy.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "laconic/base/errors.h"

namespace laconic {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;  // where the entries begin, in files NumPy writes
constexpr std::size_t kMostDimensions = 64;
constexpr std::uint64_t kMostEntries = std::uint64_t{1} << 60;  // times 8 bytes is still a number

struct Format {
  NpyDtype dtype;
  std::string_view descr, name;
  std::size_t size;
};
constexpr Format kFormats[] = {{NpyDtype::float16, "<f2", "float16", 2},
                               {NpyDtype::float32, "<f4", "float32", 4},
                               {NpyDtype::float64, "<f8", "float64", 8}};

const Format& format_of(NpyDtype dtype) { return kFormats[static_cast<std::size_t>(dtype)]; }

[[noreturn]] void refuse_header() {
  throw DataError("the .npy header is not a dict of 'descr', 'fortran_order' and 'shape'");
}

// Reads the few forms of Python literals that a header has off the front of a text.
class Literals {
 public:
  explicit Literals(std::string_view text) : text_(text) {}

  bool take(std::string_view token) {
    skip_spaces();
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) refuse_header();
  }
  bool at_end() {
    skip_spaces();
    return text_.empty();
  }

  std::string_view quoted() {
    const std::string_view quote = take("'") ? "'" : "\"";
    if (quote == "\"") expect(quote);
    return take_until(text_.find(quote), 1);
  }

  bool boolean() {
    if (take("True")) return true;
    expect("False");
    return false;
  }

  std::vector<std::uint64_t> extents() {
    std::vector<std::uint64_t> shape;
    expect("(");
    while (!take(")")) {
      if (shape.size() == kMostDimensions) refuse_header();
      shape.push_back(whole());
      if (!take(",")) {
        expect(")");
        break;
      }
    }
    return shape;
  }

  // A name such as '<f4', or the list that describes a structured dtype, as it stands.
  std::string_view dtype() {
    skip_spaces();
    if (!text_.starts_with("[")) return quoted();
    int depth = 0;
    for (std::size_t i = 0; i < text_.size(); ++i) {
      depth += text_[i] == '[' ? 1 : text_[i] == ']' ? -1 : 0;
      if (depth == 0) return take_until(i + 1, 0);
    }
    refuse_header();
  }

 private:
  void skip_spaces() {
    text_.remove_prefix(std::min(text_.find_first_not_of(" \t\n"), text_.size()));
  }

  std::string_view take_until(std::size_t end, std::size_t skip) {
    if (end == std::string_view::npos) refuse_header();
    const auto front = text_.substr(0, end);
    text_.remove_prefix(end + skip);
    return front;
  }

  std::uint64_t whole() {
    skip_spaces();
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc()) refuse_header();
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    take("L");  // Python 2 wrote long integers so
    return value;
  }

  std::string_view text_;
};

struct Header {
  std::optional<std::string_view> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::uint64_t>> shape;
};

Header parse_header(std::string_view text) {
  Header header;
  Literals in(text);
  in.expect("{");
  while (!in.take("}")) {
    const auto key = in.quoted();
    in.expect(":");
    if (key == "descr") {
      header.descr = in.dtype();
    } else if (key == "fortran_order") {
      header.fortran_order = in.boolean();
    } else if (key == "shape") {
      header.shape = in.extents();
    } else {
      refuse_header();
    }
    if (!in.take(",")) {
      in.expect("}");
      break;
    }
  }
  if (!in.at_end() || !header.descr || !header.fortran_order || !header.shape) refuse_header();
  return header;
}

// Splits a file in the header's text and the entries.
struct Parts {
  std::string_view header;
  ByteView entries;
};

Parts split(ByteView bytes) {
  if (!as_text(bytes).starts_with(kMagic))
    throw DataError("not a .npy file: it does not begin with '\\x93NUMPY'");
  const std::size_t version = bytes.size() > kMagic.size() ? bytes[kMagic.size()] : 0;
  if (version < 1 || version > 3)
    throw DataError("the .npy file has format version " + std::to_string(version) +
                    "; allowed: 1 to 3");
  const std::size_t width = version == 1 ? 2 : 4;
  const std::size_t start = kMagic.size() + 2 + width;
  if (bytes.size() < start) throw DataError("the .npy file is cut short within its first bytes");
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data() + start - width, width);
  if (length > bytes.size() - start)
    throw DataError("the .npy file claims a header of " + std::to_string(length) +
                    " bytes, but only " + std::to_string(bytes.size() - start) + " follow");
  return {as_text(bytes.subspan(start, length)), bytes.subspan(start + length)};
}

const Format& find_format(std::string_view descr) {
  const auto* const found = std::ranges::find(kFormats, descr, &Format::descr);
  if (found != std::end(kFormats)) return *found;
  constexpr std::size_t kShown = 40;  // a structured dtype can be long
  throw UsageError(
      "the array's dtype is " + std::string(descr.substr(0, kShown)) +
      (descr.size() > kShown ? "..." : "") +
      "; allowed: little-endian float16, float32 and float64 (<f2, <f4, <f8), so save it with "
      "a.astype('<f4')");
}

// Bounded at every step, counting empty dimensions as one, so it cannot wrap around.
std::uint64_t count_of(std::span<const std::uint64_t> shape) {
  std::uint64_t bound = 1, count = 1;
  for (const std::uint64_t extent : shape) {
    if (extent > 0 && bound > kMostEntries / extent)
      throw DataError("the .npy file claims the shape " + shape_text(shape) +
                      ", more than any memory holds");
    bound *= std::max<std::uint64_t>(extent, 1);
    count *= extent;
  }
  return count;
}

float from_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16, exponent = half >> 10 & 31U,
                      mantissa = half & 1023U;
  if (exponent == 0)
    return std::copysign(static_cast<float>(mantissa) * 0x1p-24F, sign ? -1.0F : 1.0F);
  const std::uint32_t field = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | field << 23 | mantissa << 13);
}

// To the nearest, ties to even.
std::uint16_t to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U, magnitude = bits & 0x7fffffffU;
  const auto signed_half = [sign](std::uint32_t half) {
    return static_cast<std::uint16_t>(sign | half);
  };
  if (magnitude > 0x7f800000U) {  // NaN, whose payload must not become 0: that would be Inf
    const std::uint32_t payload = magnitude >> 13 & 1023U;
    return signed_half(0x7c00U | (payload == 0 ? 512U : payload));
  }
  if (magnitude == 0x7f800000U) return signed_half(0x7c00U);
  if (magnitude >= 0x477ff000U)
    return signed_half(0x7bffU);  // from 65520 on, it would round to Inf
  if (magnitude < 0x38800000U)    // below 2^-14: whole multiples of 2^-24
    return signed_half(
        static_cast<std::uint32_t>(std::lrint(std::bit_cast<float>(magnitude) * 0x1p24F)));
  return signed_half((magnitude + 0xfffU + (magnitude >> 13 & 1U) - (112U << 23)) >> 13);
}

float narrow(double value, std::size_t index) {
  const auto narrowed = static_cast<float>(value);
  if (std::isfinite(value) && !std::isfinite(narrowed))
    throw UsageError("entry " + std::to_string(index) +
                     " of the float64 array is finite but beyond the range of float32 (3.4e38)");
  return narrowed;
}

void read_entries(NpyDtype dtype, const std::uint8_t* from, std::span<float> values) {
  switch (dtype) {
    case NpyDtype::float16:
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = from_half(load<std::uint16_t>(from + 2 * i));
      return;
    case NpyDtype::float32:
      if (!values.empty()) std::memcpy(values.data(), from, values.size_bytes());
      return;
    case NpyDtype::float64:
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = narrow(load<double>(from + 8 * i), i);
      return;
  }
}

void write_entries(NpyDtype dtype, std::span<const float> values, std::uint8_t* to) {
  switch (dtype) {
    case NpyDtype::float16:
      for (std::size_t i = 0; i < values.size(); ++i) store(to + 2 * i, to_half(values[i]));
      return;
    case NpyDtype::float32:
      if (!values.empty()) std::memcpy(to, values.data(), values.size_bytes());
      return;
    case NpyDtype::float64:
      for (std::size_t i = 0; i < values.size(); ++i)
        store(to + 8 * i, static_cast<double>(values[i]));
      return;
  }
}

}  // namespace

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text.append(i == 0 ? "" : ", ").append(std::to_string(shape[i]));
  return text.append(shape.size() == 1 ? ",)" : ")");
}

NpyArray read_npy(ByteView bytes) {
  const Parts parts = split(bytes);
  const Header header = parse_header(parts.header);
  const Format& format = find_format(*header.descr);
  if (*header.fortran_order)
    throw UsageError(
        "the array is in Fortran order; allowed: C order, so save it with np.ascontiguousarray(a)");
  const std::uint64_t count = count_of(*header.shape);
  if (count * format.size != parts.entries.size())
    throw DataError("the .npy file has " + std::to_string(parts.entries.size()) +
                    " bytes of entries, but its shape " + shape_text(*header.shape) + " of " +
                    std::string(format.name) + " takes " + std::to_string(count * format.size));
  NpyArray array{format.dtype, *header.shape, std::vector<float>(static_cast<std::size_t>(count))};
  read_entries(array.dtype, parts.entries.data(), array.values);
  return array;
}

void append_npy(NpyDtype dtype, std::span<const std::uint64_t> shape, std::span<const float> values,
                Buffer& out) {
  const Format& format = format_of(dtype);
  std::string header = "{'descr': '" + std::string(format.descr) +
                       "', 'fortran_order': False, 'shape': " + shape_text(shape) + ", }";
  const std::size_t before = kMagic.size() + 4;  // magic, version, length
  header.append(kAlignment - 1 - (before + header.size()) % kAlignment, ' ');
  header += '\n';
  out.reserve(out.size() + before + header.size() + values.size() * format.size);
  out.append(as_bytes(kMagic));
  out.append_number(std::uint16_t{1});  // version 1.0
  out.append_number(static_cast<std::uint16_t>(header.size()));
  out.append(as_bytes(header));
  write_entries(dtype, values, out.grow(values.size() * format.size));
}

}  // namespace laconic
