// Where planes lie: in a section as it is written, or in working memory beside a coder.
#pragma once

#include <algorithm>

#include "laconic/operators/stage.h"

namespace laconic {

// Planes one after the other, as a section without a coder has them.
template <class Byte>
std::array<std::span<Byte>, kMostPlanes> cut(std::span<Byte> bytes, const PlaneShapes& shapes) {
  std::array<std::span<Byte>, kMostPlanes> planes{};
  for (std::size_t i = 0, at = 0; i < shapes.count; at += shapes.shape[i++].size())
    planes[i] = bytes.subspan(at, shapes.shape[i].size());
  return planes;
}

// Planes in working memory, each at an aligned address.
inline PlaneSpans place(const PlaneShapes& shapes, Buffer& memory) {
  constexpr std::size_t kAlign = 64;
  const auto aligned = [](std::size_t size) { return (size + kAlign - 1) / kAlign * kAlign; };
  std::size_t size = kAlign;
  for (std::size_t i = 0; i < shapes.count; ++i) size += aligned(shapes.shape[i].size());
  auto bytes = memory.reset(size);
  bytes = bytes.subspan(aligned(reinterpret_cast<std::uintptr_t>(bytes.data())) -
                        reinterpret_cast<std::uintptr_t>(bytes.data()));
  PlaneSpans planes{};
  for (std::size_t i = 0; i < shapes.count; ++i) {
    planes[i] = bytes.first(shapes.shape[i].size());
    bytes = bytes.subspan(std::min(bytes.size(), aligned(planes[i].size())));
  }
  return planes;
}

inline PlaneViews views(const PlaneSpans& spans) {
  PlaneViews result;
  std::ranges::copy(spans, result.begin());
  return result;
}

}  // namespace laconic
