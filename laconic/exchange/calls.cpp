// What callers ask of an aggregator, and the thread that does its work.
#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/exchange/driver.h"

namespace laconic {
namespace {

// One more who waits for a part.
class Counted {
 public:
  explicit Counted(Common& common) : common_(common) { add(1); }
  ~Counted() { add(-1); }

 private:
  void add(int one) {
    const std::lock_guard lock(common_.mutex);
    common_.wait_for_parts += one;
  }

  Common& common_;
};

}  // namespace

Driver::Pause::Pause(const Driver& driver)
    : driver_(driver), lock_(driver.driving_, std::try_to_lock) {
  if (lock_) return;
  ++driver_.wanted_;
  driver_.common_.transport.wake();
  lock_.lock();
  --driver_.wanted_;
}

// The engine's thread may have stepped back meanwhile.
Driver::Pause::~Pause() {
  lock_.unlock();
  const std::lock_guard lock(driver_.common_.mutex);
  driver_.call_back();
}

// The engine's thread, if it was kept away and may have something to do. Called with the mutex
// held.
void Driver::call_back() const {
  if (!std::exchange(parked_, false)) return;
  if (std::ranges::any_of(attempts_, [](const auto& a) { return a->phase == Phase::open; }))
    work_.notify_one();
}

std::vector<std::string> Driver::take_guard_record() {
  require_closed(whole(), true);
  return common_.guard ? common_.guard->take_record() : std::vector<std::string>{};
}

std::size_t Driver::submit(Attempt& attempt, const Part& part) {
  Stopwatch watch;
  std::size_t number = 0;
  {
    const std::lock_guard lock(common_.mutex);
    if (attempt.phase == Phase::failed) return attempt.submitted.put(part);  // finish tells why
    if (attempt.phase != Phase::open || attempt.finishing)
      throw UsageError("submit without a step; allowed: between begin and finish");
    number = attempt.submitted.put(part);
  }
  tell_engine();
  if (common_.setup.engine == Engine::callers)
    while (drive()) {
    }
  const std::lock_guard lock(common_.mutex);
  attempt.exposed += watch.lap();
  return number;
}

void Driver::submit_all(std::span<float> gradient) {
  all_tensors_.clear();
  all_data_.clear();
  const Places& places = whole().submitted.gradient().places();
  for (std::size_t t = 0; t < places.tensors(); ++t) {
    all_tensors_.push_back(t);
    all_data_.push_back(gradient.data() + places.begin(t));
  }
  submit(whole(), {.tensors = all_tensors_, .data = all_data_});
}

bool Driver::poll(Attempt& attempt, std::size_t part) {
  if (common_.setup.engine == Engine::callers) drive();
  const std::lock_guard lock(common_.mutex);
  return attempt.is_done(part);
}

bool Driver::wait(Attempt& attempt, std::size_t part, double seconds) {
  const bool limited = !(seconds <= 0);
  const auto until = limited ? Deadline::in(seconds, "").at : Clock::time_point::max();
  const Counted counted(common_);
  {
    const std::lock_guard lock(common_.mutex);
    if (!attempt.is_done(part)) require_under_way(attempt, part);
  }
  return wait_until(
      attempt, [&] { return attempt.is_done(part); }, until);
}

// Throws UsageError unless the part ends without others. Called with the mutex held.
void Driver::require_under_way(const Attempt& attempt, std::size_t part) const {
  const std::string waits = "part " + std::to_string(part) + " waits for tensor";
  if (const auto names = attempt.submitted.lacking(&part); !names.empty())
    throw UsageError(waits + " '" + names[0] + "', which was not submitted yet");
  if (attempt.finishing) return;
  const std::size_t least = common_.setup.unit_bytes;
  if (attempt.submitted.waits_for_more(part, least))
    throw UsageError(waits +
                     "s that were not submitted yet: parts travel together until they have " +
                     std::to_string(least) + " bytes of gradient (unit_bytes)");
  if (common_.exchange->wants_norm() && !attempt.submitted.all_put())
    throw UsageError(waits + "s that were not submitted yet: memory '" + common_.setup.memory +
                     "' asks for the norm of the whole gradient before anything is sent");
}

StepStats Driver::finish(Attempt& attempt) {
  {
    const std::lock_guard lock(common_.mutex);
    if (attempt.finished || attempt.phase == Phase::none)
      throw UsageError("finish without a step; allowed: after begin");
    attempt.finishing = true;
  }
  tell_engine();
  wait_until(attempt, [&] { return attempt.phase != Phase::open; });
  const std::lock_guard lock(common_.mutex);
  attempt.finished = true;
  if (attempt.phase == Phase::failed) std::rethrow_exception(attempt.failure);
  attempt.stats().exposed_seconds = attempt.exposed;
  return attempt.stats();
}

// Whoever does the engine's work and waits for the transport looks at what is new.
void Driver::tell_engine() {
  bool rests = false;
  {
    const std::lock_guard lock(common_.mutex);
    rests = resting_;
    if (!rests) work_.notify_one();
  }
  if (rests) common_.transport.wake();
}

// Does the engine's work, or waits for the thread that does. False: it has become too late.
template <class Done>
bool Driver::wait_until(Attempt& attempt, Done done, Clock::time_point until) {
  Stopwatch watch;
  if (common_.setup.engine == Engine::thread) {
    std::unique_lock lock(common_.mutex);
    if (until == Clock::time_point::max()) common_.changed.wait(lock, done);  // no clock reaches it
    const bool there = common_.changed.wait_until(lock, until, done);
    attempt.exposed += watch.lap();
    return there;
  }
  for (;;) {
    {
      const std::lock_guard lock(common_.mutex);
      const bool there = done();
      if (there || Clock::now() >= until) {
        attempt.exposed += watch.lap();
        return there;
      }
    }
    drive(until);
    if (wanted_ > 0) std::this_thread::yield();
  }
}

Outcome Driver::outcome(const Attempt& attempt) const {
  const std::lock_guard lock(common_.mutex);
  return attempt.outcome;
}

void Driver::commit(Attempt& attempt) {
  const Pause pause(*this);
  if (attempt.outcome == Outcome::in_doubt)
    attempt.write_rest();
  else if (!attempt.pending)
    throw UsageError("commit of no step; allowed: once, after a finish that was finite");
  make_commit(attempt);
}

void Driver::rollback(Attempt& attempt) {
  const std::lock_guard lock(common_.mutex);
  if (!attempt.finished)
    throw UsageError("rollback of no step; allowed: after finish, before the next begin");
  if (attempt.outcome == Outcome::committed)
    throw UsageError("rollback of a step that was committed");
  attempt.pending = false;
}

void Driver::abort(Attempt& attempt, std::string_view why) {
  {
    const std::lock_guard lock(common_.mutex);
    if (attempt.phase != Phase::open) return;
    attempt.aborting = why.empty() ? "the host has ended the step" : why;
  }
  tell_engine();
  wait_until(attempt, [&] { return attempt.phase != Phase::open; });
}

TensorStats Driver::tensor_stats(const Attempt& attempt, std::size_t tensor) const {
  require_closed(attempt, true);
  return attempt.tensor_stats(tensor);
}

std::vector<UnitTimes> Driver::unit_times(const Attempt& attempt) const {
  require_closed(attempt, true);
  return attempt.unit_times();
}

// Throws UsageError while the step is open.
void Driver::require_closed(const Attempt& attempt, bool or_pending) const {
  const std::lock_guard lock(common_.mutex);
  if (attempt.under_way() || (attempt.pending && !or_pending))
    throw UsageError("a step is open; allowed: after " +
                     std::string(or_pending ? "finish" : "it was committed or rolled back"));
}

double Driver::residual_norm() const {
  require_closed(whole());
  const Pause pause(*this);
  return common_.exchange->residual_norm();
}

// Estimates (ef21, diana) lack nothing that the next gradient does not bring.
bool Driver::owes() const {
  require_closed(whole());
  const Pause pause(*this);
  const Memory* const memory = common_.exchange->memory();
  if (!memory || memory->reshapes()) return false;
  return common_.setup.down_memory != "none" || !common_.exchange->save().empty();
}

State Driver::save() const {
  require_closed(whole());
  const Pause pause(*this);
  return common_.exchange->save();
}

void Driver::load(const State& state) {
  const Pause pause(*this);
  for (const auto& attempt : attempts_) require_closed(*attempt);
  common_.exchange->load(state);
}

Transaction::Transaction(Driver& driver, Attempt& attempt) : driver_(&driver), attempt_(&attempt) {}
Transaction::Transaction(Transaction&& other) noexcept
    : driver_(other.driver_), attempt_(std::exchange(other.attempt_, nullptr)) {}
Transaction& Transaction::operator=(Transaction&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(attempt_, other.attempt_);
  return *this;
}
Transaction::~Transaction() {
  if (attempt_) driver_->let_go(*attempt_);
}

std::size_t Transaction::submit(const Part& part) { return driver_->submit(*attempt_, part); }
bool Transaction::poll(std::size_t part) { return driver_->poll(*attempt_, part); }
bool Transaction::wait(std::size_t part, double seconds) {
  return driver_->wait(*attempt_, part, seconds);
}
StepStats Transaction::finish() { return driver_->finish(*attempt_); }
void Transaction::commit() { driver_->commit(*attempt_); }
void Transaction::rollback() { driver_->rollback(*attempt_); }
void Transaction::abort(std::string_view why) { driver_->abort(*attempt_, why); }
Outcome Transaction::outcome() const { return driver_->outcome(*attempt_); }
TensorStats Transaction::tensor_stats(std::size_t tensor) const {
  return driver_->tensor_stats(*attempt_, tensor);
}
std::vector<UnitTimes> Transaction::unit_times() const { return driver_->unit_times(*attempt_); }

Aggregator::Aggregator(Setup setup, std::unique_ptr<Exchange> exchange)
    : driver_(std::make_unique<Driver>(std::move(setup), std::move(exchange))) {}
Aggregator::~Aggregator() = default;

Transaction Aggregator::begin(const StepInfo& info, std::span<const std::size_t> tensors) {
  return {*driver_, driver_->begin(info, tensors)};
}

void Aggregator::begin(const StepInfo& info) { driver_->begin_whole(info); }
std::size_t Aggregator::submit(const Part& part) { return driver_->submit(driver_->whole(), part); }
bool Aggregator::poll(std::size_t part) { return driver_->poll(driver_->whole(), part); }
bool Aggregator::wait(std::size_t part, double seconds) {
  return driver_->wait(driver_->whole(), part, seconds);
}
StepStats Aggregator::finish() { return driver_->finish(driver_->whole()); }
void Aggregator::commit() { driver_->commit(driver_->whole()); }
void Aggregator::rollback() { driver_->rollback(driver_->whole()); }
void Aggregator::abort(std::string_view why) { driver_->abort(driver_->whole(), why); }
Outcome Aggregator::outcome() const { return driver_->outcome(driver_->whole()); }
std::vector<std::string> Aggregator::take_guard_record() { return driver_->take_guard_record(); }
Outcome Aggregator::settle(Transport& among) { return driver_->settle(among); }
void Aggregator::take_over(const Aggregator& settled) { driver_->take_over(*settled.driver_); }
TensorStats Aggregator::tensor_stats(std::size_t tensor) const {
  return driver_->tensor_stats(driver_->whole(), tensor);
}
std::vector<UnitTimes> Aggregator::unit_times() const {
  return driver_->unit_times(driver_->whole());
}
double Aggregator::residual_norm() const { return driver_->residual_norm(); }
bool Aggregator::owes() const { return driver_->owes(); }
State Aggregator::save() const { return driver_->save(); }
void Aggregator::load(const State& state) { driver_->load(state); }

StepStats Aggregator::average(std::span<float> gradient, const StepInfo& info) {
  require_count(gradient, driver_->model());
  begin(info);
  driver_->submit_all(gradient);
  const StepStats stats = finish();
  if (stats.finite) commit();
  return stats;
}

}  // namespace laconic
