// Each lane is what remains of shifted symbols when they are cut to a byte.
#include "laconic/kernels/lanes.h"

#include "laconic/base/bytes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/lanes.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/stream.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

std::size_t take_two(const std::uint8_t*, std::size_t, std::uint8_t* const*) { return 0; }
std::size_t take_four(const std::uint8_t*, std::size_t, std::uint8_t* const*) { return 0; }
std::size_t put_two(const std::uint8_t* const*, std::size_t, std::uint8_t*) { return 0; }
std::size_t put_four(const std::uint8_t* const*, std::size_t, std::uint8_t*) { return 0; }

#else

constexpr std::size_t kAhead = 4096;  // bytes that are asked for before their turn

template <class T>
HWY_INLINE std::size_t take_by(const std::uint8_t* symbols, std::size_t count,
                               std::uint8_t* const* lanes) {
  const hn::CappedTag<T, 64 / sizeof(T)> d;
  const hn::Repartition<std::uint8_t, decltype(d)> bytes;
  const hn::Rebind<std::uint8_t, decltype(d)> lane;
  constexpr std::size_t kStep = hn::MaxLanes(d);
  constexpr int kTop = 8 * sizeof(T) - 1;
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    fetch_ahead(symbols + i * sizeof(T) + kAhead);
    const auto v = hn::BitCast(d, hn::LoadU(bytes, symbols + i * sizeof(T)));
    const auto turned = hn::Or(hn::Add(v, v), hn::ShiftRight<kTop>(v));
    hn::StoreU(hn::TruncateTo(lane, turned), lane, lanes[0] + i);
    hn::StoreU(hn::TruncateTo(lane, hn::ShiftRight<8>(turned)), lane, lanes[1] + i);
    if constexpr (sizeof(T) == 4) {
      hn::StoreU(hn::TruncateTo(lane, hn::ShiftRight<16>(turned)), lane, lanes[2] + i);
      hn::StoreU(hn::TruncateTo(lane, hn::ShiftRight<24>(turned)), lane, lanes[3] + i);
    }
  }
  return i;
}

template <class T>
HWY_INLINE std::size_t put_by(const std::uint8_t* const* lanes, std::size_t count,
                              std::uint8_t* symbols) {
  const hn::CappedTag<T, 64 / sizeof(T)> d;
  const hn::Repartition<std::uint8_t, decltype(d)> bytes;
  const hn::Rebind<std::uint8_t, decltype(d)> lane;
  constexpr std::size_t kStep = hn::MaxLanes(d);
  constexpr int kTop = 8 * sizeof(T) - 1;
  const auto at = [&](std::size_t l, std::size_t i)
                      HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(lane, lanes[l] + i)); };
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    auto v = hn::Or(at(0, i), hn::ShiftLeft<8>(at(1, i)));
    if constexpr (sizeof(T) == 4) {
      for (std::size_t l = 0; l < 3; ++l) fetch_ahead(lanes[l] + i + kAhead / 4);
      v = hn::Or(v, hn::Or(hn::ShiftLeft<16>(at(2, i)), hn::ShiftLeft<24>(at(3, i))));
    }
    const auto turned = hn::Or(hn::ShiftRight<1>(v), hn::ShiftLeft<kTop>(v));
    hn::StoreU(hn::BitCast(bytes, turned), bytes, symbols + i * sizeof(T));
  }
  return i;
}

// All return how many were done.
std::size_t take_two(const std::uint8_t* symbols, std::size_t count, std::uint8_t* const* lanes) {
  return take_by<std::uint16_t>(symbols, count, lanes);
}
std::size_t take_four(const std::uint8_t* symbols, std::size_t count, std::uint8_t* const* lanes) {
  return take_by<std::uint32_t>(symbols, count, lanes);
}
std::size_t put_two(const std::uint8_t* const* lanes, std::size_t count, std::uint8_t* symbols) {
  return put_by<std::uint16_t>(lanes, count, symbols);
}
std::size_t put_four(const std::uint8_t* const* lanes, std::size_t count, std::uint8_t* symbols) {
  return put_by<std::uint32_t>(lanes, count, symbols);
}

#endif

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(take_two);
HWY_EXPORT(take_four);
HWY_EXPORT(put_two);
HWY_EXPORT(put_four);

template <class T>
void take_rest(const std::uint8_t* symbols, std::size_t i, std::size_t count,
               std::uint8_t* const* lanes) {
  for (; i < count; ++i) {
    const T turned = std::rotl(load<T>(symbols + i * sizeof(T)), 1);
    for (std::size_t l = 0; l < sizeof(T); ++l)
      lanes[l][i] = static_cast<std::uint8_t>(turned >> (8 * l));
  }
}
template <class T>
void put_rest(const std::uint8_t* const* lanes, std::size_t i, std::size_t count,
              std::uint8_t* symbols) {
  for (; i < count; ++i) {
    T turned = 0;
    for (std::size_t l = 0; l < sizeof(T); ++l)
      turned = static_cast<T>(turned | static_cast<T>(lanes[l][i]) << (8 * l));
    store(symbols + i * sizeof(T), std::rotr(turned, 1));
  }
}

}  // namespace

void take_lanes(const std::uint8_t* symbols, std::size_t count, std::size_t width,
                std::uint8_t* const* lanes) {
  if (width == 2)
    take_rest<std::uint16_t>(symbols, HWY_DYNAMIC_DISPATCH(take_two)(symbols, count, lanes), count,
                             lanes);
  else
    take_rest<std::uint32_t>(symbols, HWY_DYNAMIC_DISPATCH(take_four)(symbols, count, lanes), count,
                             lanes);
}

void put_lanes(const std::uint8_t* const* lanes, std::size_t count, std::size_t width,
               std::uint8_t* symbols) {
  if (width == 2)
    put_rest<std::uint16_t>(lanes, HWY_DYNAMIC_DISPATCH(put_two)(lanes, count, symbols), count,
                            symbols);
  else
    put_rest<std::uint32_t>(lanes, HWY_DYNAMIC_DISPATCH(put_four)(lanes, count, symbols), count,
                            symbols);
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE
