// A network link, as people name it: "100mbit,1ms". And what it takes of processors: "6us,0.4ns".
#pragma once

#include <string>

#include "laconic/transports/modelled.h"
#include "laconic/transports/sockets_stack.h"

namespace laconic {

// Rate in kbit, mbit or gbit, latency in us, ms or s. Throws UsageError.
Link parse_link(const std::string& text);

// Seconds for a message and for a byte, in ns, us, ms or s. Throws UsageError.
Stack parse_stack(const std::string& text);

}  // namespace laconic
