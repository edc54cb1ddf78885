// The table of launches.
#include "laconic/transports/launch.h"

namespace laconic {
namespace {

Registry<Launch>& registry() {
  static Registry<Launch> launches("transport between processes");
  return launches;
}

}  // namespace

const Registry<Launch>& launches() { return registry(); }

RegisterLaunch::RegisterLaunch(Launch launch) { registry().add(std::move(launch)); }

}  // namespace laconic
