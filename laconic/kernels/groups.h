// How a loop over vectors meets an array whose length is no multiple of the vector's: kernels are
// given whole groups of 64 entries, and the last, partial group goes through padded copies. Written
// once, here.
#pragma once

#include <hwy/base.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>

// For the lambdas within a loop over vectors. Where one is called four times compilers may leave it
// a function, whose vectors all pass through memory: loops then take up to twice as long.
// Sanitizers check every copy, and a file then takes minutes to compile.
#if HWY_IS_ASAN || HWY_IS_TSAN
#define LACONIC_INLINED HWY_ATTR
#else
#define LACONIC_INLINED HWY_ATTR __attribute__((always_inline))
#endif

namespace laconic::kernels {

inline constexpr std::size_t kGroup = 64;  // a multiple of every vector width, and one word of bits

// How far ahead of its use an array that is read once is asked for, in floats: the processor's own
// guesses end with a page.
inline constexpr std::size_t kReadAhead = 1024;

struct Bit {};  // the type of an entry in a bit plane: entry i is bit i % 8 of byte i / 8

template <class T>
struct Stored {
  using Unit = T;
  static constexpr std::size_t per_unit = 1;
};
template <>
struct Stored<Bit> {
  using Unit = std::uint8_t;
  static constexpr std::size_t per_unit = 8;
};

// The arrays a kernel walks side by side.
template <class T>
struct In {
  const typename Stored<T>::Unit* data;
};
template <class T>
struct Out {
  typename Stored<T>::Unit* data;
};
template <class T>
struct InOut {
  typename Stored<T>::Unit* data;
};

namespace detail {

template <class T>
struct Padded {
  using Unit = typename Stored<T>::Unit;
  static constexpr std::size_t units(std::size_t entries) {
    return (entries + Stored<T>::per_unit - 1) / Stored<T>::per_unit;
  }
  Unit values[units(kGroup)] = {};
  Unit* back = nullptr;
  std::size_t count;

  Padded(In<T> array, std::size_t from, std::size_t entries) : count(units(entries)) {
    std::copy_n(array.data + from / Stored<T>::per_unit, count, values);
  }
  Padded(Out<T> array, std::size_t from, std::size_t entries)
      : back(array.data + from / Stored<T>::per_unit), count(units(entries)) {}
  Padded(InOut<T> array, std::size_t from, std::size_t entries)
      : Padded(Out<T>{array.data}, from, entries) {
    std::copy_n(back, count, values);
  }
  void copy_back() const {
    if (back) std::copy_n(values, count, back);
  }
};
template <class T>
Padded(In<T>, std::size_t, std::size_t) -> Padded<T>;
template <class T>
Padded(Out<T>, std::size_t, std::size_t) -> Padded<T>;
template <class T>
Padded(InOut<T>, std::size_t, std::size_t) -> Padded<T>;

}  // namespace detail

// Calls kernel(from, entries, pointers...) once for all whole groups and once, on padded copies,
// for what remains. `entries` is a multiple of kGroup both times; padding is zeros.
template <class Kernel, class... Arrays>
void in_groups(std::size_t count, Kernel kernel, Arrays... arrays) {
  const std::size_t whole = count / kGroup * kGroup;
  if (whole > 0) kernel(std::size_t{0}, whole, arrays.data...);
  if (whole == count) return;
  auto padded = std::tuple(detail::Padded(arrays, whole, count - whole)...);
  std::apply(
      [&](auto&... p) {
        kernel(whole, kGroup, p.values...);
        (p.copy_back(), ...);
      },
      padded);
}

}  // namespace laconic::kernels
