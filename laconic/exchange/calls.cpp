// What callers ask of an aggregator, and the thread that does its work.
#include "laconic/base/bytes.h"
#include "laconic/base/errors.h"
#include "laconic/exchange/conversation.h"
#include "laconic/exchange/driver.h"

namespace laconic {

Aggregator::Driver::Driver(Setup setup, std::unique_ptr<Exchange> exchange)
    : setup_(std::move(setup)),
      exchange_(std::move(exchange)),
      transport_(setup_.transport),
      scratch_(setup_.threads),
      meter_(transport_),
      votes_(static_cast<std::size_t>(transport_.size())),
      me_(static_cast<std::size_t>(transport_.rank())),
      submitted_(setup_.model) {
  lanes_ = dynamic_cast<Lanes*>(exchange_.get());
  if (lanes_) {
    GuardFacts facts{
        .ranks = votes_.size(), .entries = count_of(setup_.model), .lanes = lanes_->there()};
    for (const laconic::Phase& phase : setup_.warmup) facts.fences.push_back(phase.until);
    guard_.emplace(setup_.guard, facts);
  }
  if (setup_.engine == Engine::thread) thread_ = std::thread([this] { run(); });
}

Aggregator::Driver::~Driver() {
  abort("the aggregator was destroyed within a step");
  {
    const std::lock_guard lock(mutex_);
    quitting_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Aggregator::Driver::begin(const StepInfo& info) {
  {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::open || (phase_ == Phase::ended && !finished_))
      throw UsageError("begin within step " + std::to_string(info_.step) +
                       "; allowed: after finish");
    if (outcome_ == Outcome::in_doubt) std::rethrow_exception(failure_);
  }
  if (pending_) commit();
  const std::lock_guard driving(driving_);
  info_ = info;
  take_lane();
  info_.ranks = votes_.size();
  stats_ = {};
  sent_.clear();
  meter_ = TrafficMeter(transport_);
  formed_ = 0;
  forming_ = last_closed_ = voting_ = voted_ = false;
  means_finite_ = true;
  forming_bytes_ = 0;
  attempt_ = transport_.open_attempt();
  try {
    plan_ = &exchange_->plan_at(info.step);
    sent_.resize(plan_->layout.size());
    exchange_->begin(info_);
    fenced_ = exchange_->wants_norm();
  } catch (...) {
    fail();
    finished_ = true;
    throw;
  }
  const std::lock_guard lock(mutex_);
  submitted_.begin(*plan_);
  finishing_ = finished_ = false;
  aborting_.clear();
  failure_ = nullptr;
  exposed_ = 0;
  phase_ = Phase::open;
}

// What was measured of the last step, if it came to its end, and the lane of this one.
void Aggregator::Driver::take_lane() {
  if (!guard_) return;
  const auto now = Clock::now();
  const auto seconds = [](Clock::duration time) {
    return static_cast<float>(std::chrono::duration<double>(time).count());
  };
  measures_before_ = {};
  if (phase_ == Phase::ended) {
    measures_before_ = measures_;
    measures_before_.period = seconds(now - begun_);
    measures_before_.kernels =
        static_cast<float>(stats_.compress_seconds + stats_.decompress_seconds);
    measures_before_.exposed = static_cast<float>(stats_.exposed_seconds);
  }
  measures_ = {};
  begun_ = now;
  under_way_ = 0;
  probing_ = false;
  bytes_then_ = transport_.bytes_sent();
  lanes_->take(guard_->lane(info_.step));
}

std::vector<std::string> Aggregator::Driver::take_guard_record() {
  require_closed(true);
  return guard_ ? guard_->take_record() : std::vector<std::string>{};
}

std::size_t Aggregator::Driver::submit(const Part& part) {
  Stopwatch watch;
  std::size_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::failed) return submitted_.put(part);  // finish tells why
    if (phase_ != Phase::open || finishing_)
      throw UsageError("submit without a step; allowed: between begin and finish");
    number = submitted_.put(part);
  }
  tell_engine();
  if (setup_.engine == Engine::callers)
    while (drive()) {
    }
  const std::lock_guard lock(mutex_);
  exposed_ += watch.lap();
  return number;
}

void Aggregator::Driver::submit_all(std::span<float> gradient) {
  all_tensors_.clear();
  all_data_.clear();
  const Places& places = submitted_.gradient().places();
  for (std::size_t t = 0; t < places.tensors(); ++t) {
    all_tensors_.push_back(t);
    all_data_.push_back(gradient.data() + places.begin(t));
  }
  submit({.tensors = all_tensors_, .data = all_data_});
}

bool Aggregator::Driver::poll(std::size_t part) {
  if (setup_.engine == Engine::callers) drive();
  const std::lock_guard lock(mutex_);
  return is_done(part);
}

// With mutex_ held.
bool Aggregator::Driver::is_done(std::size_t part) const {
  if (phase_ == Phase::failed) std::rethrow_exception(failure_);
  if (!submitted_.known(part))
    throw UsageError("part " + std::to_string(part) + " was not submitted in this step");
  return phase_ == Phase::ended || (submitted_.done(part) && !submitted_.completes(part));
}

bool Aggregator::Driver::wait(std::size_t part, double seconds) {
  const bool limited = !(seconds <= 0);
  const auto until = limited ? Deadline::in(seconds, "").at : Clock::time_point::max();
  {
    const std::lock_guard lock(mutex_);
    if (!is_done(part))
      if (const auto names = submitted_.lacking(&part); !names.empty())
        throw UsageError("part " + std::to_string(part) + " waits for tensor '" + names[0] +
                         "', which was not submitted yet");
  }
  return wait_until([&] { return is_done(part); }, until);
}

StepStats Aggregator::Driver::finish() {
  {
    const std::lock_guard lock(mutex_);
    if (finished_ || phase_ == Phase::none)
      throw UsageError("finish without a step; allowed: after begin");
    finishing_ = true;
  }
  tell_engine();
  wait_until([&] { return phase_ != Phase::open; });
  const std::lock_guard lock(mutex_);
  finished_ = true;
  if (phase_ == Phase::failed) std::rethrow_exception(failure_);
  stats_.exposed_seconds = exposed_;
  return stats_;
}

void Aggregator::Driver::tell_engine() {
  if (setup_.engine != Engine::thread) return;
  changed_.notify_all();
  transport_.wake();
}

// Does the engine's work, or waits for the thread that does. False: it has become too late.
template <class Done>
bool Aggregator::Driver::wait_until(Done done, Clock::time_point until) {
  Stopwatch watch;
  if (setup_.engine == Engine::thread) {
    std::unique_lock lock(mutex_);
    if (until == Clock::time_point::max()) changed_.wait(lock, done);  // no clock reaches it
    const bool there = changed_.wait_until(lock, until, done);
    exposed_ += watch.lap();
    return there;
  }
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      const bool there = done();
      if (there || Clock::now() >= until) {
        exposed_ += watch.lap();
        return there;
      }
    }
    drive(until);
  }
}

Outcome Aggregator::Driver::outcome() const {
  const std::lock_guard lock(mutex_);
  return outcome_;
}

void Aggregator::Driver::commit() {
  const std::lock_guard driving(driving_);
  if (!pending_ && !(outcome_ == Outcome::in_doubt && all_are(State::written)))
    throw UsageError("commit of no step; allowed: once, after a finish that was finite");
  exchange_->commit(submitted_.tensors(exchange_->lets_rest()));
  pending_ = false;
  outcome_ = Outcome::committed;
  committed_ = info_.step + 1;
}

// Each says which step it has committed last; who is in doubt about one at most that old commits.
Outcome Aggregator::Driver::settle(Transport& among) {
  require_closed(true);
  if (pending_) commit();
  std::uint8_t mine[sizeof committed_];
  store(mine, committed_);
  std::vector<Buffer> all;
  Conversation(among, Deadline::in(setup_.timeout_seconds, "settling the last step"))
      .all_gather(mine, all, sizeof mine);
  std::uint64_t last = 0;
  for (const Buffer& one : all) {
    if (one.size() != sizeof mine) throw DataError("a rank's last step is no number");
    last = std::max(last, laconic::load<std::uint64_t>(one.data()));
  }
  if (outcome_ != Outcome::in_doubt) return outcome_;
  if (last > info_.step) {
    commit();
  } else {
    const std::lock_guard lock(mutex_);
    outcome_ = Outcome::rolled_back;
  }
  return outcome_;
}

TensorStats Aggregator::Driver::tensor_stats(std::size_t tensor) const {
  require_closed(true);
  return submitted_.stats(tensor, sent_);
}

void Aggregator::Driver::rollback() {
  const std::lock_guard lock(mutex_);
  if (!finished_)
    throw UsageError("rollback of no step; allowed: after finish, before the next begin");
  if (outcome_ == Outcome::committed) throw UsageError("rollback of a step that was committed");
  pending_ = false;
}

void Aggregator::Driver::abort(std::string_view why) {
  {
    const std::lock_guard lock(mutex_);
    if (phase_ != Phase::open) return;
    aborting_ = why.empty() ? "the host has ended the step" : why;
  }
  tell_engine();
  wait_until([&] { return phase_ != Phase::open; });
}

// Throws UsageError while a step is open.
void Aggregator::Driver::require_closed(bool or_pending) const {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::open ||
      (phase_ == Phase::ended && (!finished_ || (pending_ && !or_pending))))
    throw UsageError("a step is open; allowed: after " +
                     std::string(or_pending ? "finish" : "it was committed or rolled back"));
}

Exchange& Aggregator::Driver::closed_exchange() const {
  require_closed();
  return *exchange_;
}

// One round of work. False: there was nothing to do, also after a pause until then at most.
bool Aggregator::Driver::drive(const std::optional<Clock::time_point>& pause) {
  const std::lock_guard driving(driving_);
  {
    const std::lock_guard lock(mutex_);
    if (phase_ != Phase::open) return false;
  }
  try {
    if (pump()) return true;
    if (pause) rest(*pause);
  } catch (...) {
    fail();
  }
  return false;
}

// The engine's thread. Without anything that flies it waits for callers.
void Aggregator::Driver::run() {
  const auto has_work = [&] {
    return quitting_ ||
           (phase_ == Phase::open && (!submitted_.inbox_empty() || !aborting_.empty() ||
                                      waits_for_transport() || (finishing_ && !last_closed_)));
  };
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, has_work);
      if (quitting_) return;
    }
    // As long as there is something to do it goes on: has_work only knows what can wake it up.
    while (drive(Clock::time_point::max())) {
    }
  }
}

Aggregator::Aggregator(Setup setup, std::unique_ptr<Exchange> exchange)
    : driver_(std::make_unique<Driver>(std::move(setup), std::move(exchange))) {}
Aggregator::~Aggregator() = default;

void Aggregator::begin(const StepInfo& info) { driver_->begin(info); }
std::size_t Aggregator::submit(const Part& part) { return driver_->submit(part); }
bool Aggregator::poll(std::size_t part) { return driver_->poll(part); }
bool Aggregator::wait(std::size_t part, double seconds) { return driver_->wait(part, seconds); }
StepStats Aggregator::finish() { return driver_->finish(); }
void Aggregator::commit() { driver_->commit(); }
void Aggregator::rollback() { driver_->rollback(); }
void Aggregator::abort(std::string_view why) { driver_->abort(why); }
Outcome Aggregator::outcome() const { return driver_->outcome(); }
std::vector<std::string> Aggregator::take_guard_record() { return driver_->take_guard_record(); }
Outcome Aggregator::settle(Transport& among) { return driver_->settle(among); }
TensorStats Aggregator::tensor_stats(std::size_t tensor) const {
  return driver_->tensor_stats(tensor);
}
double Aggregator::residual_norm() const { return driver_->closed_exchange().residual_norm(); }
State Aggregator::save() const { return driver_->closed_exchange().save(); }
void Aggregator::load(const State& state) { driver_->closed_exchange().load(state); }

StepStats Aggregator::average(std::span<float> gradient, const StepInfo& info) {
  require_count(gradient, driver_->model());
  begin(info);
  driver_->submit_all(gradient);
  const StepStats stats = finish();
  if (stats.finite) commit();
  return stats;
}

}  // namespace laconic
