// Sizes of positions, levels and planes in closed form, written after docs/frame.md and the papers
// without a look at the codecs: what payload_test.cpp audits sections with.
#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numbers>
#include <utility>

#include "tests/support.h"

namespace laconic::testing {

using Chosen = std::vector<std::uint64_t>;
using LevelList = std::vector<std::int64_t>;

inline std::uint64_t in_bytes(std::uint64_t bits) { return (bits + 7) / 8; }
inline std::uint64_t digits(std::uint64_t number) {
  return static_cast<std::uint64_t>(std::bit_width(number));
}
inline std::uint64_t varint(std::uint64_t number) {
  return std::max<std::uint64_t>(1, (digits(number) + 6) / 7);
}

inline std::uint64_t rice(std::uint64_t number, unsigned low, std::uint64_t most) {
  const std::uint64_t ones = number >> low;
  return ones < 24 ? ones + 1 + low : 24 + std::max<std::uint64_t>(1, digits(most));
}

inline std::uint64_t omega(std::uint64_t number) {
  std::uint64_t bits = 1;
  for (; number > 1; number = digits(number) - 1) bits += digits(number);
  return bits;
}

// The best number of low bits for the gaps of positions: Sattler et al.
inline unsigned golomb(double share) {
  const double b = 1 + std::floor(std::log2(std::log(std::numbers::phi - 1) / std::log1p(-share)));
  return static_cast<unsigned>(std::clamp(b, 0.0, 31.0));
}

// Positions below n; in runs of `run` entries, `most` of them in all, if run is above 0.
struct Space {
  std::uint64_t n = 0, run = 0, most = 0;
};

inline Chosen gaps(const Chosen& positions) {
  Chosen result;
  std::uint64_t before = ~std::uint64_t{0};
  for (const auto position : positions)
    result.push_back(position - std::exchange(before, position));
  return result;
}

using PositionSize = std::function<std::uint64_t(const Chosen&, const Space&)>;
inline const std::map<std::string, PositionSize> kPositionCodes = {
    {"rice",
     [](const Chosen& at, const Space& space) {
       const unsigned b = golomb(static_cast<double>(at.size()) / static_cast<double>(space.n));
       std::uint64_t bits = 0;
       for (const auto gap : gaps(at)) {
         const std::uint64_t whole = std::uint64_t{1} << b, ceiled = (gap + whole - 1) / whole;
         bits += ceiled <= 24 ? ceiled + b : 24 + std::max<std::uint64_t>(1, digits(space.n - 1));
       }
       return in_bytes(bits);
     }},
    {"fano",
     [](const Chosen& at, const Space& space) {
       const std::uint64_t low = digits(space.n / at.size()) - 1;
       return in_bytes(low * at.size()) + in_bytes(at.size() + ((space.n - 1) >> low));
     }},
    {"bitmap", [](const Chosen&, const Space& space) { return in_bytes(space.n); }},
    {"varint",
     [](const Chosen& at, const Space&) {
       std::uint64_t sum = 0;
       for (const auto gap : gaps(at)) sum += varint(gap - 1);
       return sum;
     }},
    {"fixed",
     [](const Chosen& at, const Space& space) {
       const bool runs = space.run > 0 && space.n > space.run && at.size() == space.most;
       return in_bytes(at.size() * digits((runs ? space.run : space.n) - 1));
     }},
    {"omega",
     [](const Chosen& at, const Space&) {
       std::uint64_t bits = 0;
       for (const auto gap : gaps(at)) bits += omega(gap);
       return in_bytes(bits);
     }},
};

inline std::uint64_t position_bytes(const std::string& code, const Chosen& at, const Space& space) {
  if (at.empty()) return 0;
  if (code != "auto") return kPositionCodes.at(code)(at, space);
  std::uint64_t least = ~std::uint64_t{0};
  for (const auto& [name, size] : kPositionCodes) least = std::min(least, size(at, space));
  return least;
}

inline Chosen nonzero(const LevelList& levels) {
  Chosen at;
  for (std::size_t i = 0; i < levels.size(); ++i)
    if (levels[i] != 0) at.push_back(i);
  return at;
}

inline std::uint64_t magnitude(std::int64_t level) {
  return static_cast<std::uint64_t>(std::abs(level));
}

struct LevelCode {
  std::function<bool(std::uint64_t most)> takes;
  std::function<std::uint64_t(const LevelList&, std::uint64_t most)> size;
};
inline bool any(std::uint64_t) { return true; }

inline const std::map<std::string, LevelCode> kLevelCodes = {
    {"fixed",
     {any,
      [](const LevelList& levels, std::uint64_t most) {
        if (most <= 32767) return in_bytes(levels.size() * digits(2 * most));
        std::uint64_t largest = 0;
        for (const auto level : levels) largest = std::max(largest, magnitude(level));
        return 1 + in_bytes(levels.size() * digits(2 * largest));
      }}},
    {"trits",
     {[](std::uint64_t most) { return most == 1; },
      [](const LevelList& levels, std::uint64_t) -> std::uint64_t {
        return (levels.size() + 4) / 5;
      }}},
    {"elias",
     {any,
      [](const LevelList& levels, std::uint64_t most) {
        const Chosen at = nonzero(levels);
        std::uint64_t bits = at.size();
        for (const auto gap : gaps(at)) bits += omega(gap);
        for (const auto i : at) bits += most > 1 ? omega(magnitude(levels[i])) : 0;
        return varint(at.size()) + in_bytes(bits);
      }}},
    {"sparse",
     {any,
      [](const LevelList& levels, std::uint64_t most) {
        const Chosen at = nonzero(levels);
        std::uint64_t least = ~std::uint64_t{0};
        for (unsigned low = 0; low <= 30; ++low) {
          std::uint64_t bits = 0;
          for (const auto i : at) bits += rice(magnitude(levels[i]) - 1, low, most - 1);
          least = std::min(least, bits);
        }
        return varint(8 * at.size()) + position_bytes("auto", at, {.n = levels.size()}) +
               in_bytes(at.size()) + (most > 1 && !at.empty() ? 1 + in_bytes(least) : 0);
      }}},
};

// The codes of Huffman have no closed form: `pairs` takes at most what its symbols take as they
// are, with levels beyond; and the code that counts choose hardly more than the best of the others.
struct Bounds {
  std::uint64_t least = 0, most = 0;
};
inline Bounds level_bytes(const std::string& code, const LevelList& levels, std::uint64_t most) {
  if (levels.empty()) return {};
  if (code == "pairs") {
    std::uint64_t beyond = 0;
    for (const auto level : levels) beyond += magnitude(level) > 7 ? 5 : 0;
    return {3, 1 + 3 + std::max(in_bytes(4 * levels.size()) + beyond, levels.size() + 64)};
  }
  if (code != "auto") {
    const std::uint64_t size = kLevelCodes.at(code).size(levels, most);
    return {size, size};
  }
  std::uint64_t least = ~std::uint64_t{0};
  for (const auto& [name, one] : kLevelCodes)
    if (one.takes(most)) least = std::min(least, one.size(levels, most));
  return {2, 1 + least + least / 8 + 24};
}

// A selector's positions: those it keeps at most, and whether it keeps so many unless there are too
// few.
inline std::uint64_t share_of(const Args& args, std::uint64_t n) {
  const double share = args.number("density") * static_cast<double>(n) * (1 - 1e-12);
  return std::min(n, std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(share))));
}
struct Choice {
  Space space;
  bool exact = true, sent = true;
};
inline Choice share(const Args& args, std::uint64_t n) {
  return {{.n = n, .most = share_of(args, n)}};
}
inline Choice all_of(const Args&, std::uint64_t n) { return {{.n = n, .most = n}, false}; }
inline const std::map<std::string, std::function<Choice(const Args&, std::uint64_t n)>> kSelectors =
    {
        {"topk", share},
        {"sbc", share},
        {"stc", share},
        {"threshold", all_of},
        {"adaptive", all_of},
        {"randomk",
         [](const Args& args, std::uint64_t n) -> Choice {
           return {{.n = n, .most = share_of(args, n)}, true, false};
         }},
        {"chunk",
         [](const Args& args, std::uint64_t n) -> Choice {
           const std::uint64_t run = args.whole("size"), kept = args.whole("kept");
           return {{.n = n, .run = run, .most = n / run * kept + std::min(kept, n % run)}};
         }},
};

// A quantiser's planes for n entries: bits of each plain one, by its width; and levels, if any.
struct Planes {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> plain;  // width, symbols
  std::uint64_t most = 0;
  std::function<double(double y, double scale)> level = {};  // of a decoded entry
  Bounds whole = {};  // of all bytes, where they have no closed form
};
// A scale for every 64 entries, laws and states; symbols of up to 14 bits, and few beyond them.
inline Planes in_contexts(std::uint64_t n) {
  return {.plain = {}, .whole = {1, 7 + (n + 63) / 64 + 3 + 31 + 19 + 3 * n}};
}

inline Planes scaled(std::uint64_t most, std::function<double(double, double)> level) {
  return {{{32, 1}}, most, std::move(level)};
}
inline double multiple(double y, double scale) { return y / scale; }
inline Planes signs(const Args&, std::uint64_t n) { return {{{32, 1}, {1, n}}}; }
inline std::uint64_t blocks(std::uint64_t n) { return (n + 4095) / 4096; }
// Blocks, the last filled up to a power of two.
inline Planes rotated(const Args&, std::uint64_t n) {
  const std::uint64_t last = n % 4096;
  return {{{32, blocks(n)}, {1, n - last + (last > 0 ? std::bit_ceil(last) : 0)}}};
}

inline const std::map<std::string, std::function<Planes(const Args&, std::uint64_t n)>>
    kQuantisers = {
        {"identity",
         [](const Args&, std::uint64_t n) -> Planes {
           return {{{32, n}}};
         }},
        {"natural",
         [](const Args& args, std::uint64_t n) -> Planes {
           if (args.text("bits") == "8") return {{{8, blocks(n)}, {8, n}}};
           return {{{8, n}, {1, n}}};
         }},
        {"half",
         [](const Args& args, std::uint64_t n) -> Planes {
           if (args.text("format") == "bf16") return {{{16, n}}};
           return {{{8, blocks(n)}, {16, n}}};
         }},
        {"sign", signs},
        {"stc", signs},
        {"drive", rotated},
        {"eden", rotated},
        {"dither", [](const Args&, std::uint64_t n) { return in_contexts(n); }},
        {"sbc",
         [](const Args&, std::uint64_t) -> Planes {
           return {{{32, 1}}};
         }},
        {"uniform",
         [](const Args& args, std::uint64_t n) -> Planes {
           const std::uint64_t ends = args.text("range") == "absmax" ? 1 : 2;
           return {{{32, ends}, {args.whole("bits"), n}}};
         }},
        {"binned",
         [](const Args& args, std::uint64_t n) -> Planes {
           const std::uint64_t bits = args.whole("bits");
           return {{{32, std::uint64_t{1} << bits}, {bits, n}}};
         }},
        {"qsgd",
         [](const Args& args, std::uint64_t) {
           const double s = args.number("levels");
           return scaled(args.whole("levels"),
                         [=](double y, double scale) { return y / scale * s; });
         }},
        {"terngrad", [](const Args&, std::uint64_t) { return scaled(1, multiple); }},
        {"grid",
         [](const Args& args, std::uint64_t n) {
           if (args.text("levels") == "contexts") return in_contexts(n);
           return scaled((1ULL << 31) - 1, multiple);
         }},
        {"dithering",
         [](const Args& args, std::uint64_t) {
           const double s = args.number("levels");
           return scaled(args.whole("levels"), [=](double y, double scale) {
             return y == 0 ? 0 : std::copysign(s + std::log2(std::abs(y) / scale), y);
           });
         }},
};

}  // namespace laconic::testing
