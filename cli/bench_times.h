// What all benchmarks share: a clock, the best of several rounds, and results that somebody reads.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

namespace laconic::cli {

// What one thing took in every round.
class Times {
 public:
  void note(double seconds) { all_.insert(std::ranges::upper_bound(all_, seconds), seconds); }
  bool any() const { return !all_.empty(); }
  double best() const { return all_.front(); }
  // The middle one, as a share above the best.
  double spread() const { return all_[all_.size() / 2] / best() - 1; }

 private:
  std::vector<double> all_;  // ascending
};

template <class Work>
double seconds(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Tells the compiler that somebody reads what `data` points to.
inline void keep(const void* data) { asm volatile("" : : "r"(data) : "memory"); }

}  // namespace laconic::cli
