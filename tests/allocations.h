// Counts what the program asks operator new for, on all threads. It replaces operator new, so only
// a program of one file can include it.
#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

namespace laconic::testing {

inline std::atomic<std::size_t> allocations = 0;

// How often `call` asks for memory.
template <class Call>
std::size_t allocations_in(Call call) {
  const std::size_t before = allocations;
  call();
  return allocations - before;
}

inline void* counted(void* memory) {
  ++allocations;
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace laconic::testing

// Not inlined: the compiler would see malloc's memory go to delete, and warn.
#define LACONIC_REPLACES [[gnu::noinline]]

LACONIC_REPLACES void* operator new(std::size_t size) {
  return laconic::testing::counted(std::malloc(size));
}
LACONIC_REPLACES void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  return laconic::testing::counted(std::aligned_alloc(unit, (size + unit - 1) / unit * unit));
}
LACONIC_REPLACES void operator delete(void* memory) noexcept { std::free(memory); }
LACONIC_REPLACES void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
LACONIC_REPLACES void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
LACONIC_REPLACES void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

#undef LACONIC_REPLACES
