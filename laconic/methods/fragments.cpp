// Tensors that some slice joins are one piece; pieces are dealt out by size.
#include "laconic/methods/fragments.h"

#include <algorithm>
#include <functional>

#include "laconic/base/errors.h"
#include "laconic/layout/places.h"

namespace laconic {
namespace {

struct Group {
  std::vector<std::size_t> tensors;
  std::size_t entries = 0;
};

// Slices are runs of neighbouring entries, so pieces are runs of neighbouring tensors.
std::vector<Group> pieces_of(const Recipe& recipe, const Model& model) {
  const Places places(model);
  std::vector<bool> joined(model.size() + 1);  // to the tensor before it
  const auto join = [&](const Plan& plan) {
    for (const Slice& slice : plan.layout)
      places.each(slice, [&](std::size_t tensor, std::size_t, std::size_t) {
        if (places.begin(tensor) > slice.offset) joined[tensor] = true;
      });
  };
  join(make_plan(recipe, model));
  for (const Phase& phase : make_warmup(recipe, model)) join(phase.plan);
  std::vector<Group> pieces;
  for (std::size_t t = 0; t < model.size(); ++t) {
    if (!joined[t]) pieces.emplace_back();
    pieces.back().tensors.push_back(t);
    pieces.back().entries += places.count(t);
  }
  return pieces;
}

}  // namespace

Fragments fragments_of(const Recipe& recipe, const Model& model) {
  std::vector<Group> pieces = pieces_of(recipe, model);
  if (recipe.fragments > std::max<std::size_t>(pieces.size(), 1))
    throw UsageError("recipe '" + recipe.name + "' has " + std::to_string(recipe.fragments) +
                     " fragments for a model that layout '" + recipe.layout + "' leaves in " +
                     std::to_string(pieces.size()) + " pieces; allowed: as many or fewer");
  std::ranges::stable_sort(pieces, std::greater(), &Group::entries);
  Fragments fragments(recipe.fragments);
  std::vector<std::size_t> entries(fragments.size());
  for (const Group& piece : pieces) {
    const auto least =
        static_cast<std::size_t>(std::ranges::min_element(entries) - entries.begin());
    entries[least] += piece.entries;
    fragments[least].insert(fragments[least].end(), piece.tensors.begin(), piece.tensors.end());
  }
  for (auto& tensors : fragments) std::ranges::sort(tensors);
  return fragments;
}

}  // namespace laconic
