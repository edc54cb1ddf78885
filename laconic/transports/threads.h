// Ranks as threads of one process: for tests, for training on one machine, and as the plainest
// example of a transport.
#pragma once

#include <memory>
#include <vector>

#include "laconic/exchange/transport.h"

namespace laconic {

// The ends of `size` ranks that reach each other. Give one to each thread. When a rank's end is
// destroyed, whoever waits for that rank is told at once.
std::vector<std::unique_ptr<Transport>> make_thread_transports(int size);

}  // namespace laconic
