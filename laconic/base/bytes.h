// Views of bytes and little-endian numbers in them. Everything on the wire is little-endian.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace laconic {

using ByteView = std::span<const std::uint8_t>;

static_assert(std::endian::native == std::endian::little,
              "the wire is little-endian and is read by plain loads");

template <class T>
T load(const std::uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void store(std::uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

inline std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline ByteView as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace laconic
