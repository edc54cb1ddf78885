// What else comes from outside: specs, recipes, .npy files, saved states and the notes of ranks.
// Input: u8 selects the reader, the rest is its bytes.
#include <algorithm>

#include "fuzz/fuzz.h"
#include "laconic/base/npy.h"
#include "laconic/memory/memory.h"
#include "laconic/memory/redistribute.h"
#include "laconic/recipes/recipe.h"

namespace laconic::fuzz {
namespace {

// As accepts, for readers of what a person wrote.
template <class Call>
bool accepts_text(Call call) {
  try {
    return accepts(call);
  } catch (const UsageError&) {
    return false;
  }
}

void spec(ByteView bytes) {
  if (!accepts_text([&] { parse_operator(as_text(bytes)); })) return;
  const std::string canonical = parse_operator(as_text(bytes)).spec();
  require(parse_operator(canonical).spec() == canonical, "a spec has one canonical spelling");
}

void recipe(ByteView bytes) {
  Recipe read;
  if (!accepts_text([&] { read = read_recipe(as_text(bytes)); })) return;
  require(read_recipe(write_recipe(read)) == read, "a recipe comes back");
}

void npy(ByteView bytes) {
  NpyArray array;
  if (!accepts_text([&] { array = read_npy(bytes); })) return;
  Buffer out;
  append_npy(array.dtype, array.shape, array.values, out);
  const NpyArray again = read_npy(out.view());
  require(again.dtype == array.dtype && again.shape == array.shape, "an array's form comes back");
  const auto same = [](float a, float b) { return a == b || (a != a && b != b); };
  require(std::ranges::equal(again.values, array.values, same), "an array's entries come back");
}

void state(ByteView bytes) {
  State read;
  if (!accepts([&] { read = read_state(mended(bytes)); })) return;
  const Buffer out = write_state(read);
  const State again = read_state(out.view());
  const auto same = [](const auto& a, const auto& b) {
    return a.first == b.first && std::ranges::equal(std::as_bytes(std::span(a.second)),
                                                    std::as_bytes(std::span(b.second)));
  };
  require(std::ranges::equal(read, again, same), "a state comes back, bit for bit");
  accepts([&] { require(redistribute({read, read}, 3).size() == 3, "three ranks get a state"); });
}

// Notes of a rank against good ones and against themselves, whoever comes first.
void notes(ByteView bytes) {
  static const std::string good =
      write_notes({.model = {{"w", {3, 5}}}, .recipe = recipes().front(), .seed = 7});
  const ByteView same[] = {bytes, bytes}, after[] = {as_bytes(good), bytes},
                 before[] = {bytes, as_bytes(good)};
  require(accepts_text([&] { compare_notes(same); }), "a rank agrees with itself");
  const bool agreed = accepts_text([&] { compare_notes(after); });
  require(agreed == accepts_text([&] { compare_notes(before); }), "agreement is mutual");
}

}  // namespace
}  // namespace laconic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace laconic::fuzz;
  constexpr void (*kReaders[])(laconic::ByteView) = {spec, recipe, npy, state, notes};
  Input in(data, size);
  const auto reader = in.take<std::uint8_t>();
  kReaders[reader % std::size(kReaders)](in.rest());
  return 0;
}
