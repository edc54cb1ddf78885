// A byte array that grows without clearing and keeps its memory when emptied: a fresh 100 MB block
// costs five times as much as writing into one that is already mapped.
#pragma once

#include <algorithm>
#include <memory>

#include "laconic/base/bytes.h"

namespace laconic {

class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::uint8_t* data() { return bytes_.get(); }
  const std::uint8_t* data() const { return bytes_.get(); }
  ByteView view() const { return {data(), size_}; }
  ByteView view(std::size_t from) const { return view().subspan(from); }
  std::span<std::uint8_t> span() { return {data(), size_}; }

  void clear() { size_ = 0; }

  // Cuts the buffer back to its first `size` bytes.
  void truncate(std::size_t size) { size_ = std::min(size, size_); }

  void reserve(std::size_t capacity) {
    if (capacity <= capacity_) return;
    capacity = std::max(capacity, capacity_ + capacity_ / 2);
    auto larger = std::make_unique_for_overwrite<std::uint8_t[]>(capacity);
    if (size_ > 0) std::memcpy(larger.get(), bytes_.get(), size_);
    bytes_ = std::move(larger);
    capacity_ = capacity;
  }

  // Appends `count` bytes of undefined content and returns where they start. Where memory has to be
  // taken it is more than asked for: what differs a little from step to step is then taken once.
  std::uint8_t* grow(std::size_t count) {
    const std::size_t size = size_ + count;
    if (size > capacity_) reserve(size + size / (size < (1 << 20) ? 1 : 8));
    size_ += count;
    return bytes_.get() + size_ - count;
  }

  // Makes the buffer exactly `count` bytes of undefined content and returns them.
  std::span<std::uint8_t> reset(std::size_t count) {
    clear();
    return {grow(count), count};
  }

  void append(ByteView bytes) {
    if (!bytes.empty()) std::memcpy(grow(bytes.size()), bytes.data(), bytes.size());
  }

  template <class T>
  void append_number(T value) {
    store(grow(sizeof value), value);
  }

  void swap(Buffer& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

 private:
  std::unique_ptr<std::uint8_t[]> bytes_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace laconic
