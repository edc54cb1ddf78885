// What the fuzz targets share.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/base/bytes.h"
#include "laconic/base/errors.h"
#include "laconic/codecs/crc32c.h"
#include "laconic/frame/frame.h"

namespace laconic::fuzz {

// A law that was broken: libFuzzer keeps the input.
inline void require(bool law, const char* what) {
  if (law) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// Whether the call went through. DataError is the one exception that hostile bytes may cause.
template <class Call>
bool accepts(Call call) {
  try {
    call();
    return true;
  } catch (const DataError&) {
    return false;
  }
}

// Numbers off the front of an input; zeros when it is used up.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : bytes_(data, size) {}

  template <class T>
  T take() {
    std::uint8_t number[sizeof(T)] = {};
    const auto front = take(sizeof(T));
    if (!front.empty()) std::memcpy(number, front.data(), front.size());
    return load<T>(number);
  }

  ByteView take(std::size_t count) {
    const auto front = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(front.size());
    return front;
  }

  ByteView rest() const { return bytes_; }

 private:
  ByteView bytes_;
};

// A frame whose magic, version and checksum are put right, so that the parser behind them is
// reached.
inline std::vector<std::uint8_t> mended(ByteView bytes) {
  std::vector<std::uint8_t> frame(bytes.begin(), bytes.end());
  if (frame.size() < 12) return frame;
  std::ranges::copy(as_bytes("LAC"), frame.begin());
  frame[3] = kDataVersion;
  const ByteView covered = ByteView(frame).first(frame.size() - 4);
  store(frame.data() + covered.size(), crc32c(covered));
  return frame;
}

// A place on a ring of 65536 for each spec (FNV-1a).
inline std::uint16_t place_of(std::string_view spec) {
  std::uint32_t hash = 2166136261U;
  for (const char c : spec) hash = (hash ^ static_cast<std::uint8_t>(c)) * 16777619U;
  return static_cast<std::uint16_t>(hash ^ hash >> 16);
}

// The example or chain whose place is the next one at or after `selector`, so that a corpus keeps
// its meaning when operators are added.
inline const Operator& operator_at(std::uint16_t selector) {
  static const auto operators = [] {
    std::vector<Operator> all;
    for (const auto& specs : {example_specs(), chain_specs()})
      for (const auto& spec : specs) all.push_back(parse_operator(spec));
    return all;
  }();
  const Operator* nearest = &operators.front();
  const auto distance = [&](const Operator& op) {
    return static_cast<std::uint16_t>(place_of(op.spec()) - selector);
  };
  for (const Operator& op : operators)
    if (distance(op) < distance(*nearest)) nearest = &op;
  return *nearest;
}

}  // namespace laconic::fuzz
