// What a step costs, and how that is measured.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>

namespace laconic {

// How a step's gradient may travel: as the recipe says, in 16 bits, as it is, or by operators of
// the same promise that cost less or send less (docs/guard.md).
enum class Lane : std::uint8_t { recipe, half, dense, light, tight };
inline constexpr std::size_t kLanes = 5;

constexpr std::string_view lane_name(std::size_t lane) {
  constexpr std::string_view kNames[kLanes] = {"recipe", "half", "dense", "light", "tight"};
  return lane < kLanes ? kNames[lane] : "none";
}

// What one step cost. Bytes are those that really crossed the transport.
struct StepStats {
  std::uint64_t payload_bytes = 0;  // of this rank's frames, without headers
  std::uint64_t wire_bytes = 0;     // of this rank's frames
  std::uint64_t traffic_bytes = 0;  // all this rank sent, heads of messages and the vote included
  std::uint64_t messages = 0;       // in how many messages
  std::uint64_t rounds = 0;         // how often it waited for others
  std::uint64_t dense_bytes = 0;    // the gradient as it is
  // Frames on their way to the mean, this rank's own, and frames that brought this rank the mean
  // when it comes back compressed; who sent them does not matter, so a link's two directions show.
  std::uint64_t up_bytes = 0, down_bytes = 0;
  std::uint64_t vote_bytes = 0;                         // of the traffic, what the vote took
  double compress_seconds = 0, decompress_seconds = 0;  // of one core
  double exchange_seconds = 0;                          // with nothing to do but wait for others
  double exposed_seconds = 0;   // how long the caller was held up by all of this
  double update_seconds = 0;    // of optimisers, where the step has some
  Lane lane = Lane::recipe;     // that this step took
  Lane advised = Lane::recipe;  // that the guard would take, were it not only to report
  // What the lane last advised saves of a step, as a share of what it took before: as it was
  // predicted, and as it was measured (0: not yet, or nothing was changed).
  double predicted_gain = 0, measured_gain = 0;
  std::uint64_t probe_bytes = 0;  // of the traffic, what the guard's probes took
  double guard_seconds = 0;       // in which the guard decided, or its probe was under way
  std::uint32_t flags = 0;        // all ranks' StepInfo::flags together
  bool finite = true;  // false: some rank's gradient held NaN or Inf, and the step was rolled back
};

// How one unit of a step went, in seconds since the step began: when its last tensor was there,
// when it left, when the last of its messages had arrived, and when its means were written.
struct UnitTimes {
  std::uint64_t bytes = 0;  // of gradient
  double closed = 0, left = 0, arrived = 0, written = 0;
};

// What one tensor cost this rank.
struct TensorStats {
  std::uint64_t payload_bytes = 0;  // what a slice of several tensors took is shared by entries
  std::uint64_t dense_bytes = 0;    // the gradient as it is
  bool rests = true;                // its gradient was all zeros, or not submitted
};

// Seconds since it was made or last asked.
class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }
  // Seconds since the same, which stays.
  double time() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - last_).count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Adds the seconds of its life to a sum.
class Timed {
 public:
  explicit Timed(double& sum) : sum_(sum) {}
  ~Timed() { sum_ += watch_.lap(); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  double& sum_;
  Stopwatch watch_;
};

}  // namespace laconic
