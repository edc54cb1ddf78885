// Progress of long work on stderr: a bar that is redrawn on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace laconic::cli {

class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar() { clear(); }

  // `done_here` steps took `seconds` in this process; rate and time left follow from them.
  void show(const std::string& title, std::uint64_t step, std::uint64_t steps,
            std::uint64_t done_here, double seconds);

  // Takes the bar off the screen, so that a line can be printed.
  void clear();

 private:
  std::chrono::milliseconds pause() const;

  bool terminal_, shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace laconic::cli
