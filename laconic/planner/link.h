// A network link, as people name it: "100mbit,1ms".
#pragma once

#include <string>

#include "laconic/transports/modelled.h"

namespace laconic {

// Rate in kbit, mbit or gbit, latency in us, ms or s. Throws UsageError.
Link parse_link(const std::string& text);

}  // namespace laconic
