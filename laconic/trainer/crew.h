// Ranks as threads of this process.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "laconic/exchange/transport.h"

namespace laconic::trainer {

using Body = std::function<void(Transport& end)>;
using StartThread = std::function<std::jthread(std::function<void()> work)>;

// Runs body once for each end, each in a thread of its own, and waits for all. An end is destroyed
// when its body is done, so that whoever waits for that rank is told. Throws the error that started
// it: a rank that leaves makes the others fail in their transports. When a thread cannot be
// started, those that were are told in the same way, and SystemError says how many there were.
void run_crew(
    std::vector<std::unique_ptr<Transport>> ends, const Body& body,
    const StartThread& start = [](std::function<void()> work) {
      return std::jthread(std::move(work));
    });

}  // namespace laconic::trainer
