// The guard: which lane a step takes, so that compression never makes it longer. docs/guard.md
// tells how. A pure function of everybody's votes: all ranks have the same ballots, so all decide
// alike.
#pragma once

#include <array>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "laconic/exchange/vote.h"

namespace laconic {

// What is said of a step before it begins.
struct Decision {
  std::uint64_t step = 0;  // from this one on
  Lane lane = Lane::recipe;
  std::uint32_t probe = 0;  // bytes that this step, and it alone, sends to measure the link
  // Seconds: what a step took before, what it would take by each lane (0: not a lane here), a byte
  // on the link. And why.
  double measured = 0;
  std::array<double, kLanes> predicted = {};
  double per_byte = 0;
  std::string why = {};

  friend bool operator==(const Decision&, const Decision&) = default;
};

// One JSON object on one line, and back. Reading throws DataError.
std::string write_decision(const Decision& decision);
Decision read_decision(std::string_view line);

// What the guard must know of the run, the same on all ranks.
struct GuardFacts {
  std::size_t ranks = 1, entries = 0;
  std::array<bool, kLanes> lanes = {true, false, true};
  // What a rank sends in a step by each lane, until it has been measured; 0: not known.
  std::array<double, kLanes> bytes = {};
  std::vector<std::uint64_t> fences = {};  // steps at which the recipe changes: it is taken there
};

class Guard {
 public:
  Guard(const GuardOptions& options, const GuardFacts& facts);

  // Of this step, whose votes have not been counted.
  const Decision& at(std::uint64_t step);
  // Which lane it takes; in a report always the recipe's.
  Lane lane(std::uint64_t step) { return reports_ ? Lane::recipe : at(step).lane; }
  // All ranks' ballots of the step that `at` was last asked for. Where a step is tried again only
  // the try that was voted on counts.
  void count(std::span<const Ballot> ballots);

  // Of the lane it was last changed to: shares of a step, as in StepStats.
  double predicted_gain() const { return predicted_gain_; }
  double measured_gain() const { return measured_gain_; }

  // Lines of the record since it was last asked for: whatever changed.
  std::vector<std::string> take_record() { return std::exchange(record_, {}); }

 private:
  struct Window {  // of the last few steps by a lane
    std::deque<double> periods, exposed;
    double kernels = -1, bytes = -1;  // of a step; below 0: not measured
  };
  struct Bound {  // on the seconds that a byte takes, found after so many steps
    std::uint64_t at;
    double per_byte;
  };
  struct Trial {  // since a change that has not been judged
    bool on = false;
    Lane before = Lane::recipe;
    double period = 0;  // by that
  };

  void note(std::span<const Ballot> ballots);
  void note_probe(double per_byte, double period);
  void bound(double per_byte);
  double per_byte() const;  // below 0: not known
  double cost(std::size_t lane) const;
  std::array<double, kLanes> predict() const;
  void decide();
  void judge();
  void change(Lane to, std::string why);
  std::uint32_t next_probe() const;

  GuardFacts facts_;
  bool reports_, replays_;
  std::vector<Decision> script_;  // of a replay
  Decision now_;
  std::array<Window, kLanes> windows_;
  std::deque<Bound> bounds_;
  Trial trial_;
  Lane lane_before_ = Lane::recipe;  // of the step that the next ballots tell of
  std::uint64_t counted_ = 0;        // steps
  std::uint64_t since_ = 0;          // steps measured since the last change
  std::uint64_t changed_ = 0;        // after so many steps
  double link_then_ = 0;             // seconds per byte when lanes were last all open
  std::array<std::uint64_t, kLanes> shut_until_ = {}, shut_for_ = {};
  std::uint32_t probe_size_;
  bool asks_ = false;    // steps have become much longer: a probe is to tell whether it is the link
  bool doubts_ = false;  // the last probe told of a slower link, and another is to confirm it
  std::uint64_t longer_at_ = 0;     // after so many steps one was much longer than those before it
  std::uint64_t learns_until_ = 0;  // after a doubt that no step has confirmed nothing is decided
  std::uint64_t calm_until_ = 0;    // after a doubt, for so long there is none: probes are few
  double predicted_gain_ = 0, measured_gain_ = 0;
  std::string last_line_;
  std::vector<std::string> record_;
};

}  // namespace laconic
