// The progress bar.
#include "cli/trainer/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace laconic::cli {
namespace {

std::string time_text(double seconds) {
  const auto whole = static_cast<long>(seconds + 0.5);
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

// Where nobody watches, work of a few seconds needs no lines.
ProgressBar::ProgressBar()
    : terminal_(isatty(STDERR_FILENO) == 1), next_(std::chrono::steady_clock::now() + pause()) {}

std::chrono::milliseconds ProgressBar::pause() const {
  return std::chrono::milliseconds(terminal_ ? 100 : 10000);
}

void ProgressBar::show(const std::string& title, std::uint64_t step, std::uint64_t steps,
                       std::uint64_t done_here, double seconds) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + pause();
  const double rate = seconds > 0 ? static_cast<double>(done_here) / seconds : 0;
  const double left = rate > 0 ? static_cast<double>(steps - step) / rate : 0;
  const std::string facts =
      fmt::format("{}/{} steps, {:.1f}/s, {} left", step, steps, rate, time_text(left));
  if (!terminal_) {
    fmt::print(stderr, "{}: {}\n", title, facts);
    return;
  }
  constexpr std::size_t kWidth = 24;
  const std::size_t full = steps > 0 ? kWidth * step / steps : 0;
  fmt::print(stderr, "\r\033[K{:<18} [{}{}] {}", title, std::string(full, '='),
             std::string(kWidth - full, ' '), facts);
  std::fflush(stderr);
  shown_ = true;
}

void ProgressBar::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace laconic::cli
