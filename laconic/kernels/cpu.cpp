// Names for Highway's targets.
#include "laconic/kernels/cpu.h"

#include <hwy/highway.h>

#include <algorithm>
#include <cctype>

#include "laconic/base/args.h"
#include "laconic/base/errors.h"

namespace laconic {
namespace {

std::string name_of(std::int64_t target) {
  if (target == HWY_SCALAR || target == HWY_EMU128) return "scalar";
  std::string name = hwy::TargetName(target);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

// Targets in Highway's order: the lower the bit, the better.
std::vector<std::int64_t> find_targets() {
  const std::int64_t usable = (hwy::SupportedTargets() | HWY_BASELINE_SCALAR) & HWY_TARGETS;
  std::vector<std::int64_t> list;
  for (int bit = 0; bit < 63; ++bit)
    if (usable & (std::int64_t{1} << bit)) list.push_back(std::int64_t{1} << bit);
  return list;
}

// Asked of the CPU once, before anything is forced.
const std::vector<std::int64_t>& targets() {
  static const std::vector<std::int64_t> list = find_targets();
  return list;
}

std::int64_t& forced() {
  static std::int64_t target = 0;
  return target;
}

}  // namespace

std::vector<std::string> cpu_targets() {
  std::vector<std::string> names;
  for (const auto target : targets()) names.push_back(name_of(target));
  return names;
}

void use_cpu(std::string_view name) {
  std::int64_t chosen = 0;
  for (const auto target : targets())
    if (name == name_of(target)) chosen = target;
  if (chosen == 0 && name != "auto")
    throw UsageError("no instruction set '" + std::string(name) + "' here; known: auto " +
                     join(cpu_targets(), " "));
  forced() = chosen;
  hwy::SetSupportedTargetsForTest(chosen);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

std::string cpu_in_use() { return forced() ? name_of(forced()) : cpu_targets().front(); }

}  // namespace laconic
