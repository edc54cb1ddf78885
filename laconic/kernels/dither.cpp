// Subtractive dither on vector lanes.
#include "laconic/kernels/dither.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/dither.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "laconic/kernels/dither_contexts-inl.h"
#include "laconic/kernels/rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

constexpr float kMostLevel = 0x1p30F;

// The dither of a vector of positions.
struct Dither {
  Word sign;       // of u, as that of a float
  Word magnitude;  // |u| * 2^25
};
HWY_INLINE Dither dither_of(Word draw) {
  const U32 d;
  const Word m =
      hn::Sub(hn::Or(hn::ShiftRight<7>(hn::And(draw, hn::Set(d, 0xffffff00U))), hn::Set(d, 1)),
              hn::Set(d, 1U << 24));
  const Ints whole = hn::BitCast(I32(), m);
  return {hn::And(m, hn::Set(d, 1U << 31)), hn::BitCast(d, hn::Abs(whole))};
}
HWY_INLINE Values as_float(Word magnitude) {
  return hn::Mul(hn::ConvertTo(F32(), hn::BitCast(I32(), magnitude)), set(0x1p-25F));
}

// What belongs to the scales of a vector of entries: the same one for a whole group, or looked up.
class OfGroup {
 public:
  HWY_INLINE OfGroup(const DitherSteps& steps, const std::uint8_t* scales)
      : steps_(steps), scales_(scales) {}
  HWY_INLINE void move(std::size_t i) { scale_ = scales_[i / kGroup]; }
  HWY_INLINE Values step(std::size_t) const { return set(steps_.step[scale_]); }
  HWY_INLINE Values inverse(std::size_t) const { return set(steps_.inverse[scale_]); }

 private:
  const DitherSteps& steps_;
  const std::uint8_t* scales_;
  std::size_t scale_ = 0;
};
// Scales that lie near each other, as those of a stretch of most matrices do, and that of entries
// that are not sent: from four registers, half of the time of looking them up in memory.
constexpr std::size_t kTables = 4;
constexpr std::size_t kNear = kTables * hn::MaxLanes(U32());  // scales; the last: not sent

struct Near {
  bool all;
  std::uint8_t least;

  // `count` is a multiple of 16.
  HWY_INLINE Near(const std::uint8_t* scales, std::size_t count) {
    const hn::CappedTag<std::uint8_t, 16> d;
    const auto nowhere = hn::Set(d, kDitherNowhere);
    auto low = nowhere, high = hn::Zero(d);
    for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
      const auto scale = hn::LoadU(d, scales + i);
      low = hn::Min(low, scale);
      high = hn::Max(high, hn::IfThenZeroElse(hn::Eq(scale, nowhere), scale));
    }
    std::uint8_t lows[16], highs[16];
    hn::StoreU(low, d, lows);
    hn::StoreU(high, d, highs);
    least = *std::min_element(lows, lows + hn::Lanes(d));
    all = *std::max_element(highs, highs + hn::Lanes(d)) < least + static_cast<int>(kNear) - 1;
  }
};

// Entry at[i] of two tables, at below twice the lanes.
HWY_INLINE Values look_up(Values a, Values b, Word at) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  return Values{_mm512_permutex2var_ps(a.raw, at.raw, b.raw)};
#else
  const F32 d;
  const Word inside = hn::And(at, hn::Set(U32(), static_cast<std::uint32_t>(hn::Lanes(d) - 1)));
  const auto index = hn::IndicesFromVec(d, inside);
  return hn::IfThenElse(hn::RebindMask(d, hn::Ne(at, inside)), hn::TableLookupLanes(b, index),
                        hn::TableLookupLanes(a, index));
#endif
}

class OfNear {
 public:
  HWY_INLINE OfNear(const DitherSteps& steps, const std::uint8_t* scales, std::uint8_t least)
      : scales_(scales), least_(hn::Set(U32(), least)) {
    fill(steps.step, least, steps_);
    fill(steps.inverse, least, inverses_);
  }
  HWY_INLINE void move(std::size_t) const {}
  HWY_INLINE Values step(std::size_t i) const { return look(steps_, i); }
  HWY_INLINE Values inverse(std::size_t i) const { return look(inverses_, i); }

 private:
  HWY_INLINE static void fill(const float* of_all, std::size_t least, Values* near) {
    HWY_ALIGN float table[kNear] = {};
    for (std::size_t i = 0; i + 1 < kNear && least + i < kDitherNowhere; ++i)
      table[i] = of_all[least + i];
    for (std::size_t i = 0; i < kTables; ++i)
      near[i] = hn::Load(F32(), table + i * kNear / kTables);
  }
  HWY_INLINE Values look(const Values* near, std::size_t i) const {
    const U32 d;
    const Word scale = hn::PromoteTo(d, hn::LoadU(Bytes(), scales_ + i));
    const Word at = hn::Min(hn::Sub(scale, least_), hn::Set(d, kNear - 1));
    const Word inside = hn::And(at, hn::Set(d, kNear / 2 - 1));
    return hn::IfThenElse(hn::RebindMask(F32(), hn::Ne(at, inside)),
                          look_up(near[2], near[3], inside), look_up(near[0], near[1], inside));
  }
  const std::uint8_t* scales_;
  Word least_;
  Values steps_[kTables], inverses_[kTables];
};
class OfEach {
 public:
  HWY_INLINE OfEach(const DitherSteps& steps, const std::uint8_t* scales)
      : steps_(steps), scales_(scales) {}
  HWY_INLINE void move(std::size_t) const {}
  HWY_INLINE Values step(std::size_t i) const {
    return hn::GatherIndex(F32(), steps_.step, scales(i));
  }
  HWY_INLINE Values inverse(std::size_t i) const {
    return hn::GatherIndex(F32(), steps_.inverse, scales(i));
  }

 private:
  HWY_INLINE Ints scales(std::size_t i) const {
    return hn::BitCast(I32(), hn::PromoteTo(U32(), hn::LoadU(Bytes(), scales_ + i)));
  }
  const DitherSteps& steps_;
  const std::uint8_t* scales_;
};

// Calls use(of) with what tells the scales of `count` entries.
template <class Use>
HWY_INLINE void with_scales(const DitherSteps& steps, DitherScales scales,
                            [[maybe_unused]] std::size_t count, Use use) {
  if (scales.by_group) return use(OfGroup(steps, scales.scales));
#if HWY_TARGET != HWY_SCALAR
  const Near near(scales.scales, count);
  if (near.all) return use(OfNear(steps, scales.scales, near.least));
#endif
  use(OfEach(steps, scales.scales));
}

// Levels from bytes, and where these do not hold them from where they do.
HWY_INLINE Ints load_levels(const LevelView& levels, std::size_t i) {
  const I32 di;
  const hn::Rebind<std::int8_t, U32> bytes;
  const Ints level = hn::PromoteTo(di, hn::LoadU(bytes, levels.small + i));
  if (HWY_LIKELY(hn::AllFalse(di, hn::Eq(level, hn::Set(di, kWide))))) return level;
  std::int32_t all[16];
  for (std::size_t lane = 0; lane < hn::Lanes(di); ++lane) all[lane] = levels[i + lane];
  return hn::LoadU(di, all);
}

// The mirrored level of a vector of entries.
HWY_INLINE Ints mirrored_of(Values x, Values inverse, Word draw) {
  const U32 d;
  const F32 df;
  const I32 di;
  const Dither u = dither_of(draw);
  const Values offset = hn::BitCast(df, hn::Or(hn::BitCast(d, as_float(u.magnitude)), u.sign));
  const Values moved = hn::Add(hn::Mul(x, inverse), hn::Add(offset, set(0.5F)));
  const Values level = hn::Min(hn::Max(hn::Floor(moved), set(-kMostLevel)), set(kMostLevel));
  // Where nothing is sent y is 0, and the largest |u| plus 1/2 is rounded to 1.
  return hn::IfThenZeroElse(hn::RebindMask(di, hn::Eq(inverse, hn::Zero(df))),
                            whole_part(hn::BitCast(df, hn::Xor(hn::BitCast(d, level), u.sign))));
}

template <class Of>
HWY_INLINE void dither_by(const float* x, std::size_t count, Of of, const Contexts& contexts,
                          std::uint32_t first, Key key, LevelSpan levels, std::uint16_t* symbols) {
  const I32 di;
  const U32 d;
  const std::size_t lanes = hn::Lanes(di);
  HWY_ALIGN std::uint8_t tops[kGroup], codes[kGroup];
  HWY_ALIGN std::int32_t wide[kGroup];
  Hashed draws(first, key);
  for (std::size_t from = 0; from < count; from += kGroup) {
    if (contexts.none(from)) {
      std::fill_n(levels.small + from, kGroup, std::int8_t{0});
      std::fill_n(symbols + from, kGroup, static_cast<std::uint16_t>(-kLeastSymbol));
      draws.skip(kGroup);
      continue;
    }
    of.move(from);
    Ints most = hn::Zero(di);
    const auto next = [&](std::size_t at, Word& top) LACONIC_INLINED {
      const Word draw = draws.next();
      const Ints level = mirrored_of(hn::LoadU(F32(), x + from + at), of.inverse(from + at), draw);
      hn::StoreU(level, di, wide + at);
      most = hn::Max(most, hn::Abs(level));
      top = hn::ShiftRight<28>(draw);
      return hn::BitCast(d, level);
    };
    for (std::size_t at = 0; at < kGroup; at += 4 * lanes) {
      Word tops_of[4];
      const Word a = next(at, tops_of[0]), b = next(at + lanes, tops_of[1]),
                 c = next(at + 2 * lanes, tops_of[2]), e = next(at + 3 * lanes, tops_of[3]);
      store_signed({a, b, c, e}, levels.small + from + at);
      store_bytes({tops_of[0], tops_of[1], tops_of[2], tops_of[3]}, tops + at);
    }
    contexts.codes(from, codes);
    add_bins(tops, codes);
    if (HWY_LIKELY(hn::AllTrue(di, hn::Lt(most, hn::Set(di, kMostSmall + 1))))) {
      to_symbols(levels.small + from, codes, kLeastSymbol, symbols + from);
      continue;
    }
    HWY_ALIGN std::int16_t halves[kGroup];
    for (std::size_t i = 0; i < kGroup; ++i) {
      levels.set(from + i, wide[i]);
      halves[i] = static_cast<std::int16_t>(std::clamp(wide[i], -0x7fff, 0x7fff));
    }
    to_symbols(halves, codes, kLeastSymbol, symbols + from);
  }
}

void dither_run(const float* x, std::size_t count, const DitherSteps& steps, DitherScales scales,
                std::uint32_t first, Key key, LevelSpan levels, std::uint16_t* symbols) {
  const Contexts contexts(steps, scales);
  with_scales(steps, scales, count, [&](auto of) HWY_ATTR {
    dither_by(x, count, of, contexts, first, key, levels, symbols);
  });
}

void contexts_run(std::size_t count, const DitherSteps& steps, DitherScales scales,
                  std::uint32_t first, Key key, std::uint8_t* contexts) {
  const Contexts all(steps, scales);
  HWY_ALIGN std::uint8_t tops[kGroup];
  Hashed draws(first, key);
  for (std::size_t i = 0; i < count; i += kGroup) {
    all.codes(i, contexts + i);
    if (all.none(i)) {
      draws.skip(kGroup);
      continue;
    }
    top_bits(draws, tops);
    add_bins(tops, contexts + i);
  }
}

template <bool kHasBase, class Of>
HWY_INLINE void add_by(LevelView levels, std::size_t count, Of of, const Contexts& contexts,
                       std::uint32_t first, Key key, const float* base, float weight, float* y) {
  const U32 d;
  const F32 df;
  const std::size_t lanes = hn::Lanes(d);
  const Values most = set(std::numeric_limits<float>::max()), w = set(weight);
  Hashed draws(first, key);
  for (std::size_t from = 0; from < count; from += kGroup) {
    if (!kHasBase && contexts.none(from)) {
      draws.skip(kGroup);
      continue;
    }
    of.move(from);
    hwy::Prefetch(y + from + kAddAhead);
    for (std::size_t i = from; i < from + kGroup; i += lanes) {
      const Dither u = dither_of(draws.next());
      const Ints level = load_levels(levels, i);
      const Values size =
          hn::Mul(hn::Sub(hn::ConvertTo(df, level), as_float(u.magnitude)), of.step(i));
      Values held = hn::Min(hn::Max(size, hn::Neg(most)), most);
      held = hn::BitCast(df, hn::Xor(hn::BitCast(d, held), u.sign));
      if constexpr (kHasBase) {
        held = hn::Add(held, hn::LoadU(df, base + i));
        held = hn::Min(hn::Max(held, hn::Neg(most)), most);
      }
      add_to(y + i, w, held);
    }
  }
}

void add_dithered_run(LevelView levels, std::size_t count, const DitherSteps& steps,
                      DitherScales scales, std::uint32_t first, Key key, const float* base,
                      float weight, float* y) {
  const Contexts contexts(steps, scales);
  with_scales(steps, scales, count, [&](auto of) HWY_ATTR {
    if (base == nullptr)
      add_by<false>(levels, count, of, contexts, first, key, base, weight, y);
    else
      add_by<true>(levels, count, of, contexts, first, key, base, weight, y);
  });
}

void in_classes_run(LevelView levels, std::size_t count, const DitherSteps& steps,
                    DitherScales scales, std::int32_t least, std::uint16_t* symbols) {
  const hn::CappedTag<std::int8_t, kGroup> d;
  const Contexts contexts(steps, scales);
  HWY_ALIGN std::uint8_t codes[kGroup];
  for (std::size_t from = 0; from < count; from += kGroup) {
    contexts.codes(from, codes);
    bool wide = false;
    for (std::size_t i = 0; i < kGroup; i += hn::Lanes(d))
      wide = wide ||
             !hn::AllFalse(d, hn::Eq(hn::LoadU(d, levels.small + from + i), hn::Set(d, kWide)));
    if (HWY_LIKELY(!wide)) {
      to_symbols(levels.small + from, codes, least, symbols + from);
      continue;
    }
    HWY_ALIGN std::int16_t halves[kGroup];
    for (std::size_t i = 0; i < kGroup; ++i)
      halves[i] = static_cast<std::int16_t>(std::clamp(levels[from + i], -0x7fff, 0x7fff));
    to_symbols(halves, codes, least, symbols + from);
  }
}

void classes_run(std::size_t count, const DitherSteps& steps, DitherScales scales,
                 std::uint8_t* classes) {
  const Contexts contexts(steps, scales);
  for (std::size_t i = 0; i < count; i += kGroup) contexts.codes(i, classes + i);
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {
namespace {

HWY_EXPORT(dither_run);
HWY_EXPORT(contexts_run);
HWY_EXPORT(add_dithered_run);
HWY_EXPORT(in_classes_run);
HWY_EXPORT(classes_run);

// Those of the entries from `at` on.
DitherScales from(DitherScales scales, std::size_t at) {
  return {scales.scales + (scales.by_group ? at / kGroup : at), scales.by_group};
}

// Calls run(from, count, position's low half, key of the upper half, scales from there on) for
// stretches of whole groups and for what remains, of up to a group.
template <class Run>
void in_stretches(std::size_t count, DitherScales scales, Key own, std::uint64_t first, Run run) {
  for (std::size_t done = 0; done < count;) {
    const std::uint64_t position = first + done;
    // A group whose positions cross a multiple of 2^32 goes entry by entry.
    const std::uint64_t room = (1ULL << 32) - (position & 0xffffffffU);
    std::size_t part = count - done;
    if (part > kGroup) part = part / kGroup * kGroup;
    if (room < part) part = room >= kGroup ? static_cast<std::size_t>(room / kGroup * kGroup) : 1;
    const std::size_t inside = done % kGroup;
    if (inside != 0) part = room < kGroup - inside ? 1 : std::min(part, kGroup - inside);
    run(done, part, static_cast<std::uint32_t>(position), own.fork(position >> 32),
        from(scales, done));
    done += part;
  }
}

// Scales of a last, partial group are copied: a vector reads beyond them.
struct PaddedScales {
  std::uint8_t copy[kGroup] = {};
  DitherScales scales;
  PaddedScales(DitherScales all, std::size_t count) : scales{copy, all.by_group} {
    std::copy_n(all.scales, all.by_group ? 1 : count, copy);
  }
};

}  // namespace

void dither(std::span<const float> x, const DitherSteps& steps, DitherScales scales, Key own,
            std::uint64_t first, LevelSpan levels, std::uint16_t* symbols) {
  const auto run = HWY_DYNAMIC_DISPATCH(dither_run);
  in_stretches(
      x.size(), scales, own, first,
      [&](std::size_t from, std::size_t part, std::uint32_t at, Key key, DitherScales here) {
        if (part % kGroup == 0)
          return run(x.data() + from, part, steps, here, at, key, levels.from(from),
                     symbols + from);
        const PaddedScales padded(here, part);
        float entries[kGroup] = {};
        std::int8_t small[kGroup];
        std::int32_t wide[kGroup];
        std::uint16_t coded[kGroup];
        std::copy_n(x.data() + from, part, entries);
        run(entries, kGroup, steps, padded.scales, at, key, {small, wide}, coded);
        std::copy_n(coded, part, symbols + from);
        for (std::size_t i = 0; i < part; ++i) levels.set(from + i, LevelView{small, wide}[i]);
      });
}

void dither_contexts(std::size_t count, const DitherSteps& steps, DitherScales scales, Key own,
                     std::uint64_t first, std::uint8_t* contexts) {
  const auto run = HWY_DYNAMIC_DISPATCH(contexts_run);
  in_stretches(
      count, scales, own, first,
      [&](std::size_t from, std::size_t part, std::uint32_t at, Key key, DitherScales here) {
        if (part % kGroup == 0) return run(part, steps, here, at, key, contexts + from);
        const PaddedScales padded(here, part);
        std::uint8_t all[kGroup];
        run(kGroup, steps, padded.scales, at, key, all);
        std::copy_n(all, part, contexts + from);
      });
}

void add_dithered(LevelView levels, const DitherSteps& steps, DitherScales scales, Key own,
                  std::uint64_t first, const float* base, float weight, std::span<float> y) {
  const auto run = HWY_DYNAMIC_DISPATCH(add_dithered_run);
  in_stretches(
      y.size(), scales, own, first,
      [&](std::size_t from, std::size_t part, std::uint32_t at, Key key, DitherScales here) {
        const float* here_base = base == nullptr ? nullptr : base + from;
        if (part % kGroup == 0)
          return run(levels.from(from), part, steps, here, at, key, here_base, weight,
                     y.data() + from);
        const PaddedScales padded(here, part);
        std::int8_t small[kGroup] = {};
        std::int32_t wide[kGroup] = {};
        float sums[kGroup] = {}, added[kGroup] = {};
        if (base != nullptr) std::copy_n(here_base, part, added);
        const LevelSpan copied{small, wide};
        for (std::size_t i = 0; i < part; ++i) copied.set(i, levels[from + i]);
        std::copy_n(y.data() + from, part, sums);
        run(copied, kGroup, steps, padded.scales, at, key, base == nullptr ? nullptr : added,
            weight, sums);
        std::copy_n(sums, part, y.data() + from);
      });
}

void levels_in_classes(LevelView levels, std::size_t count, const DitherSteps& steps,
                       DitherScales scales, std::int32_t least, std::uint16_t* symbols) {
  const auto run = HWY_DYNAMIC_DISPATCH(in_classes_run);
  const std::size_t whole = count / kGroup * kGroup, rest = count - whole;
  if (whole > 0) run(levels, whole, steps, scales, least, symbols);
  if (rest == 0) return;
  const PaddedScales padded(from(scales, whole), rest);
  std::int8_t small[kGroup] = {};
  std::int32_t wide[kGroup] = {};
  std::uint16_t coded[kGroup];
  for (std::size_t i = 0; i < rest; ++i) LevelSpan{small, wide}.set(i, levels[whole + i]);
  run({small, wide}, kGroup, steps, padded.scales, least, coded);
  std::copy_n(coded, rest, symbols + whole);
}

void class_contexts(std::size_t count, const DitherSteps& steps, DitherScales scales,
                    std::uint8_t* contexts) {
  const auto run = HWY_DYNAMIC_DISPATCH(classes_run);
  const std::size_t whole = count / kGroup * kGroup, rest = count - whole;
  if (whole > 0) run(whole, steps, scales, contexts);
  if (rest == 0) return;
  const PaddedScales padded(from(scales, whole), rest);
  std::uint8_t all[kGroup];
  run(kGroup, steps, padded.scales, all);
  std::copy_n(all, rest, contexts + whole);
}

}  // namespace laconic::kernels
#endif  // HWY_ONCE
