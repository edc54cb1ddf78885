// An array of plain values that grows without clearing and keeps its memory when emptied: Buffer
// for numbers.
#pragma once

#include <span>
#include <type_traits>

#include "laconic/base/buffer.h"

namespace laconic {

template <class T>
class Array {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  std::size_t size() const { return bytes_.size() / sizeof(T); }
  bool empty() const { return bytes_.empty(); }
  T* data() { return reinterpret_cast<T*>(bytes_.data()); }
  const T* data() const { return reinterpret_cast<const T*>(bytes_.data()); }
  std::span<T> span() { return {data(), size()}; }
  std::span<const T> view() const { return {data(), size()}; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }

  void clear() { bytes_.clear(); }
  void truncate(std::size_t size) { bytes_.truncate(size * sizeof(T)); }
  void push_back(T value) { *grow(1) = value; }

  // Appends `count` values of undefined content and returns where they start.
  T* grow(std::size_t count) { return reinterpret_cast<T*>(bytes_.grow(count * sizeof(T))); }

  // Makes the array exactly `count` values of undefined content and returns them.
  std::span<T> reset(std::size_t count) {
    clear();
    return {grow(count), count};
  }

 private:
  Buffer bytes_;
};

}  // namespace laconic
