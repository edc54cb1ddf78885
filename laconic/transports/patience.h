// Pauses between two questions, where nobody can be woken.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace laconic {

// First only lets others run, then sleeps up to 50 us, so that a waiting rank leaves its core to
// those that work.
class Patience {
 public:
  void pause(std::chrono::steady_clock::time_point until) {
    if (++times_ <= 50) return std::this_thread::yield();
    std::this_thread::sleep_until(std::min(until, std::chrono::steady_clock::now() + sleep_));
    sleep_ = std::min(2 * sleep_, std::chrono::microseconds(50));
  }

 private:
  int times_ = 0;
  std::chrono::microseconds sleep_{1};
};

}  // namespace laconic
