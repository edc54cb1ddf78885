// What is predicted, tried and judged.
#include "laconic/exchange/guard.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "laconic/base/errors.h"
#include "laconic/base/file.h"

namespace laconic {
namespace {

using nlohmann::ordered_json;

// In steps that were voted on.
constexpr std::uint64_t kHold = 8;       // between a judgement and the next change
constexpr std::uint64_t kTrial = 6;      // measured before a change is judged
constexpr std::uint64_t kExplore = 512;  // without a change, until the next best lane is tried
constexpr std::uint64_t kShut = 64;      // a lane that was slower; twice as long each time
constexpr std::uint64_t kLongestShut = 8192;
constexpr std::uint64_t kProbeEvery = 16, kFirstProbes = 4;
constexpr std::uint64_t kCalm = 24;        // after a doubt about the link, until the next
constexpr std::uint64_t kBoundLasts = 24;  // what was measured of the link
constexpr std::uint64_t kLearns = 6;       // of a link that only probes have found to be slower
constexpr std::size_t kWindow = 8;         // periods of a lane

constexpr double kGain = 0.02;    // of a step, predicted, is worth a change
constexpr double kWorse = 1.01;   // measured, ends a trial
constexpr double kMuchWorse = 2;  // ends it at the first step
constexpr double kTryable = 1.3;  // predicted, for a lane that is tried all the same
constexpr double kLinkChanged = 2.5;
// A probe's share of a step: at one in 16 steps, half a percent of time.
constexpr double kProbeMost = 0.08, kProbeLeast = 0.04;
constexpr std::uint32_t kSmallestProbe = 1024, kFirstProbe = 16384, kLargestProbe = 1U << 20;

// Seconds of one core for an entry, until they have been measured.
constexpr std::array<double, kLanes> kUsualKernels = {4e-9, 2e-9, 1e-9, 2e-9, 5e-9};

double median(std::deque<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void push(std::deque<double>& window, double value) {
  window.push_back(value);
  if (window.size() > kWindow) window.pop_front();
}

// The least over ranks of what a member of their measures is, per so much of another.
double least_ratio(std::span<const Ballot> ballots, float Measures::*seconds,
                   float Measures::*bytes) {
  double least = -1;
  for (const Ballot& ballot : ballots) {
    const Measures& m = ballot.measures;
    if (!(m.*bytes > 0)) continue;
    const double ratio = static_cast<double>(m.*seconds) / static_cast<double>(m.*bytes);
    if (least < 0 || ratio < least) least = ratio;
  }
  return least;
}

// The mean over ranks of what a byte of the probe took; below 0: there was none. A probe comes from
// the rank before: who starts late has waited for less, and who comes after for as much longer, so
// that in the mean it does not matter.
double probe_per_byte(std::span<const Ballot> ballots) {
  double seconds = 0, bytes = 0;
  for (const Ballot& ballot : ballots) {
    if (!(ballot.measures.probe_bytes > 0)) return -1;
    seconds += static_cast<double>(ballot.measures.probe);
    bytes += static_cast<double>(ballot.measures.probe_bytes);
  }
  return seconds / bytes;
}

double least(std::span<const Ballot> ballots, float Measures::*member) {
  float value = ballots[0].measures.*member;
  for (const Ballot& ballot : ballots) value = std::min(value, ballot.measures.*member);
  return static_cast<double>(value);
}

std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }

std::vector<Decision> read_script(const std::string& file, const GuardFacts& facts) {
  const Buffer bytes = read_file(file);
  std::vector<Decision> script;
  std::string_view text = as_text(bytes.view());
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::string_view one = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    if (one.empty()) continue;
    try {
      script.push_back(read_decision(one));
      if (!facts.lanes[index(script.back().lane)])
        throw DataError("lane '" + std::string(lane_name(index(script.back().lane))) +
                        "' is none of this recipe's");
      if (script.size() > 1 && script.back().step <= script[script.size() - 2].step)
        throw DataError("steps must rise");
    } catch (const DataError& error) {
      throw DataError(file + ", line " + std::to_string(line) + ": " + error.what());
    }
  }
  return script;
}

}  // namespace

std::string write_decision(const Decision& d) {
  ordered_json line = {{"step", d.step}, {"lane", lane_name(index(d.lane))}};
  if (d.probe > 0) line["probe"] = d.probe;
  if (!d.why.empty()) {
    line["why"] = d.why;
    line["step_seconds"] = d.measured;
    line["seconds_per_byte"] = d.per_byte;
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      if (d.predicted[lane] > 0)
        line["predicted"][std::string(lane_name(lane))] = d.predicted[lane];
  }
  return line.dump();
}

Decision read_decision(std::string_view text) {
  const ordered_json line = ordered_json::parse(text, nullptr, false);
  const auto whole = [&](const char* key, std::uint64_t most) -> std::uint64_t {
    if (!line.at(key).is_number_unsigned() || line.at(key).get<std::uint64_t>() > most)
      throw DataError(std::string("'") + key + "' is " + line.at(key).dump() + "; allowed: 0 to " +
                      std::to_string(most));
    return line.at(key);
  };
  if (!line.is_object() || !line.contains("step") || !line.contains("lane"))
    throw DataError("a decision is a JSON object with 'step' and 'lane'");
  Decision decision;
  decision.step = whole("step", std::numeric_limits<std::uint64_t>::max());
  std::size_t lane = 0;
  while (lane < kLanes && line["lane"] != lane_name(lane)) ++lane;
  if (lane == kLanes) {
    std::string known;
    for (std::size_t i = 0; i < kLanes; ++i) known += " " + std::string(lane_name(i));
    throw DataError("no lane " + line["lane"].dump() + "; known:" + known);
  }
  decision.lane = static_cast<Lane>(lane);
  if (line.contains("probe"))
    decision.probe = static_cast<std::uint32_t>(whole("probe", kLargestProbe));
  return decision;
}

GuardOptions GuardOptions::parse(std::string_view text) {
  constexpr std::string_view kReplay = "replay=";
  if (text == "off") return {};
  if (text == "on") return {.mode = Mode::on};
  if (text == "report") return {.mode = Mode::report};
  if (text.starts_with(kReplay) && text.size() > kReplay.size())
    return {.mode = Mode::replay, .file = std::string(text.substr(kReplay.size()))};
  throw UsageError("no guard '" + std::string(text) + "'; allowed: on, off, report or replay=FILE");
}

Guard::Guard(const GuardOptions& options, const GuardFacts& facts)
    : facts_(facts),
      reports_(options.mode == GuardOptions::Mode::report),
      replays_(options.mode == GuardOptions::Mode::replay),
      probe_size_(kFirstProbe) {
  if (replays_) script_ = read_script(options.file, facts_);
  std::ranges::sort(facts_.fences);
  now_.why = "the recipe's own comes first";
}

const Decision& Guard::at(std::uint64_t step) {
  if (replays_) {
    const auto after = std::ranges::upper_bound(script_, step, {}, &Decision::step);
    now_ = after == script_.begin() ? Decision{} : *(after - 1);
    if (now_.step != step) now_.probe = 0;
    return now_;
  }
  while (!facts_.fences.empty() && facts_.fences.front() <= step) {
    facts_.fences.erase(facts_.fences.begin());
    windows_[index(Lane::recipe)] = {};
    shut_until_ = shut_for_ = {};
    change(Lane::recipe, "the recipe changes");
    trial_ = {};
  }
  now_.step = step;
  if (!now_.why.empty() || now_.probe > 0) {
    const std::string line = write_decision(now_);
    if (line != last_line_) record_.push_back(last_line_ = line);
  }
  return now_;
}

void Guard::count(std::span<const Ballot> ballots) {
  if (replays_) return;
  now_.why.clear();
  note(ballots);
  lane_before_ = static_cast<Lane>(ballots[0].lane);
  ++counted_;
  if (per_byte() >= 0) decide();
  now_.probe = next_probe();
}

// Whatever took so long for so many bytes, a byte takes no longer.
void Guard::bound(double per_byte) {
  if (per_byte >= 0) bounds_.push_back({counted_, per_byte});
}

// The second least, where there are two: one alone may be that of a burst, which a link lets pass
// when it has rested.
double Guard::per_byte() const {
  double least = -1, second = -1;
  for (const auto& [at, seconds] : bounds_)
    if (least < 0 || seconds < least)
      second = std::exchange(least, seconds);
    else if (second < 0 || seconds < second)
      second = seconds;
  return second < 0 ? least : second;
}

// A probe that says that the link has become slower may have met something else: the next step
// sends another, and if that says so too what was known of the link is forgotten. Where steps are
// as long as they were both may have: then nothing is decided before some more steps have told.
void Guard::note_probe(double seconds, double period) {
  const double known = per_byte();
  const bool slower = known > 0 && seconds > kLinkChanged * known;
  if (slower && doubts_) {
    bounds_.clear();
    if (longer_at_ == 0 || counted_ - longer_at_ > kHold) learns_until_ = counted_ + kLearns;
  }
  if (doubts_) calm_until_ = counted_ + kCalm;
  doubts_ = slower && !doubts_ && counted_ >= calm_until_;
  asks_ = false;
  bound(seconds);
  double took = seconds * probe_size_;
  if (took < kProbeLeast * period) probe_size_ = std::min(kLargestProbe, probe_size_ * 2);
  for (; took > kProbeMost * period && probe_size_ > kSmallestProbe; took /= 2) probe_size_ /= 2;
}

// The ballots tell of the step before. Of the first one there is nothing to tell, and the first
// after it had everything to set up.
void Guard::note(std::span<const Ballot> ballots) {
  while (!bounds_.empty() && bounds_.front().at + kBoundLasts < counted_) bounds_.pop_front();
  const double period = least(ballots, &Measures::period);
  if (counted_ < 2 || !(period > 0)) return;
  Window& window = windows_[index(lane_before_)];
  const bool longer = !window.periods.empty() && period > kMuchWorse * median(window.periods);
  if (longer) longer_at_ = counted_;
  if (const double probe = probe_per_byte(ballots); probe >= 0) note_probe(probe, period);
  bound(least_ratio(ballots, &Measures::wire, &Measures::bytes));
  asks_ |= longer && counted_ >= calm_until_;
  push(window.periods, period);
  push(window.exposed, least(ballots, &Measures::exposed));
  double kernels = 0, bytes = 0;
  for (const Ballot& ballot : ballots) {
    kernels += static_cast<double>(ballot.measures.kernels) / static_cast<double>(ballots.size());
    bytes = std::max(bytes, static_cast<double>(ballot.measures.bytes));
  }
  window.kernels = window.kernels < 0 ? kernels : 0.75 * window.kernels + 0.25 * kernels;
  window.bytes = bytes;
  if (reports_ || lane_before_ == now_.lane) ++since_;
}

// Seconds of kernels and of the link that a step by this lane has.
double Guard::cost(std::size_t lane) const {
  const Window& window = windows_[lane];
  double kernels = window.kernels;
  if (kernels < 0) kernels = kUsualKernels[lane] * static_cast<double>(facts_.entries);
  // What codes more is not taken for quicker than the recipe's own has been here.
  if (window.kernels < 0 && lane == index(Lane::tight))
    kernels = std::max(kernels, windows_[index(Lane::recipe)].kernels);
  return kernels + per_byte() * (window.bytes < 0 ? facts_.bytes[lane] : window.bytes);
}

// A step by another lane differs in what of its cost is not hidden behind the host's own work, and
// as much can be hidden of it as is of this one's.
std::array<double, kLanes> Guard::predict() const {
  const std::size_t own = index(reports_ ? Lane::recipe : now_.lane);
  const Window& window = windows_[own];
  const double period = median(window.periods), exposed = median(window.exposed);
  const double hidden = std::max(0.0, cost(own) - exposed);
  const auto shown = [&](std::size_t lane) { return std::max(0.0, cost(lane) - hidden); };
  std::array<double, kLanes> predicted = {};
  for (std::size_t lane = 0; lane < kLanes; ++lane)
    if (facts_.lanes[lane])
      predicted[lane] = std::max(period - exposed, period + shown(lane) - shown(own));
  predicted[own] = period;
  return predicted;
}

void Guard::decide() {
  if (counted_ < learns_until_) return;
  const double link = per_byte();
  const double ratio = link_then_ > 0 && link > 0 ? link / link_then_ : kLinkChanged + 1;
  if (ratio > kLinkChanged || ratio * kLinkChanged < 1) {
    shut_until_ = shut_for_ = {};
    trial_ = {};
    link_then_ = link;
  }
  if (trial_.on) return judge();
  if (since_ < kHold) return;
  const auto predicted = predict();
  const std::size_t own = index(now_.lane);
  std::size_t best = own, other = kLanes;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (!facts_.lanes[lane] || shut_until_[lane] > counted_) continue;
    if (predicted[lane] < predicted[best]) best = lane;
    if (lane != own && (other == kLanes || predicted[lane] < predicted[other])) other = lane;
  }
  if (best != own && predicted[best] < (1 - kGain) * predicted[own])
    return change(static_cast<Lane>(best), "it is predicted to be faster");
  if (!reports_ && other < kLanes && counted_ - changed_ >= kExplore &&
      predicted[other] < kTryable * predicted[own])
    change(static_cast<Lane>(other), "it was not tried for long");
}

// A change stays if steps have not become longer. One that is much longer by its lane held its
// callers up for most of it; else the host has paused.
void Guard::judge() {
  const Window& window = windows_[index(now_.lane)];
  const double period = median(window.periods);
  const bool much_worse =
      since_ > 0 && period > kMuchWorse * trial_.period && median(window.exposed) > period / 2;
  if (since_ < kTrial && !much_worse) return;
  measured_gain_ = 1 - period / trial_.period;
  const Trial trial = std::exchange(trial_, {});
  if (period <= kWorse * trial.period) return;
  const std::size_t lane = index(now_.lane);
  shut_for_[lane] = std::min(kLongestShut, std::max(kShut, 2 * shut_for_[lane]));
  shut_until_[lane] = counted_ + shut_for_[lane];
  change(trial.before, "the other was slower");
  trial_ = {};
}

void Guard::change(Lane to, std::string why) {
  const std::size_t own = index(now_.lane);
  now_.why = std::move(why);
  now_.measured = median(windows_[reports_ ? 0 : own].periods);
  now_.per_byte = std::max(0.0, per_byte());
  now_.predicted = predict();
  if (now_.predicted[own] > 0)
    predicted_gain_ = 1 - now_.predicted[index(to)] / now_.predicted[own];
  if (!reports_) {
    trial_ = {.on = true, .before = now_.lane, .period = now_.measured};
    windows_[index(to)].periods.clear();
    windows_[index(to)].exposed.clear();
    since_ = 0;
  }
  changed_ = counted_;
  now_.lane = to;
}

std::uint32_t Guard::next_probe() const {
  const bool wanted = counted_ < kFirstProbes || counted_ % kProbeEvery == 0 || asks_ || doubts_;
  return wanted ? probe_size_ : 0;
}

}  // namespace laconic
