// A table that files fill with one line each when the program starts, so that adding a thing is
// adding a file.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/base/args.h"
#include "laconic/base/errors.h"

namespace laconic {

// Info has a `name`. Entries are kept sorted by name: what order files were linked in never shows.
template <class Info>
class Registry {
 public:
  explicit Registry(std::string noun) : noun_(std::move(noun)) {}

  // Throws std::logic_error, which ends the program as it starts, where the name is taken.
  void add(Info info) {
    if (find(info.name)) throw std::logic_error("two of " + noun_ + " '" + info.name + "'");
    const auto at = std::ranges::lower_bound(entries_, info.name, {}, &Info::name);
    entries_.insert(at, std::move(info));
  }

  const std::vector<Info>& all() const { return entries_; }

  const Info* find(std::string_view name) const {
    const auto at = std::ranges::find(entries_, name, &Info::name);
    return at == entries_.end() ? nullptr : &*at;
  }

  const Info& at(std::string_view name) const {
    if (const Info* info = find(name)) return *info;
    std::vector<std::string> names;
    for (const auto& entry : entries_) names.push_back(entry.name);
    throw UsageError("no " + noun_ + " '" + std::string(name) + "'; known: " + join(names, " "));
  }

 private:
  std::string noun_;
  std::vector<Info> entries_;
};

}  // namespace laconic
