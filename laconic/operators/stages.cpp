// The table of stages, filled by their registrations.
#include "laconic/base/registry.h"
#include "laconic/operators/stage.h"

namespace laconic {
namespace {

Registry<StageInfo>& registry() {
  static Registry<StageInfo> stages("operator");
  return stages;
}

}  // namespace

std::string_view role_name(Role role) {
  constexpr std::string_view kNames[] = {"scaler",           "selector",  "bucket",
                                         "sparse quantiser", "quantiser", "coder"};
  return kNames[static_cast<std::size_t>(role)];
}

const std::vector<StageInfo>& stages() { return registry().all(); }

const StageInfo& stage_named(std::string_view name) { return registry().at(name); }

RegisterStage::RegisterStage(StageInfo info) { registry().add(std::move(info)); }

Stage make_stage(std::string_view text) {
  const auto stage = split_chain(text).at(0);
  const StageInfo& info = stage_named(stage.name);
  return info.make(Args(info.name, info.parameters, stage.args));
}

}  // namespace laconic
