// Which steps are open, and the thread that moves them.
#include "laconic/exchange/driver.h"

#include <algorithm>

#include "laconic/base/bytes.h"
#include "laconic/base/errors.h"
#include "laconic/exchange/conversation.h"
#include "laconic/memory/redistribute.h"

namespace laconic {
namespace {

std::uint64_t load_number(const Buffer& numbers, std::size_t i) {
  return load<std::uint64_t>(numbers.data() + i * sizeof(std::uint64_t));
}

}  // namespace

Driver::Driver(Setup setup, std::unique_ptr<Exchange> exchange)
    : common_(std::move(setup), std::move(exchange)),
      held_{true},
      in_(common_.setup.model.size()),
      past_(in_.size()) {
  attempts_.push_back(std::make_unique<Attempt>(common_, 0));
  if (common_.setup.engine == Engine::thread) thread_ = std::thread([this] { run(); });
}

Driver::~Driver() {
  for (const auto& attempt : attempts_)
    abort(*attempt, "the aggregator was destroyed within a step");
  {
    const std::lock_guard lock(common_.mutex);
    quitting_ = true;
    work_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Driver::begin_whole(const StepInfo& info) {
  const Pause pause(*this);
  start(whole(), info, {});
}

// In a slot that nobody has, or a new one.
Attempt& Driver::begin(const StepInfo& info, std::span<const std::size_t> tensors) {
  const Pause pause(*this);
  require_tensors(tensors);
  if (info.plain) throw UsageError("a step over some tensors is to be plain; allowed: over all");
  const auto free = static_cast<std::size_t>(std::ranges::find(held_, false) - held_.begin());
  if (free == attempts_.size()) {
    auto attempt = std::make_unique<Attempt>(common_, free);
    const std::lock_guard lock(common_.mutex);
    held_.push_back(false);
    attempts_.push_back(std::move(attempt));
  }
  start(*attempts_[free], info, tensors);
  held_[free] = true;
  return *attempts_[free];
}

void Driver::require_tensors(std::span<const std::size_t> tensors) const {
  if (tensors.empty()) throw UsageError("a step over no tensors; allowed: one and more");
  if (common_.guard) throw UsageError("a step over some tensors with a guard; allowed: guard off");
  for (const std::size_t tensor : tensors)
    if (tensor >= in_.size())
      throw UsageError("tensor " + std::to_string(tensor) + " is none of the model's");
}

void Driver::start(Attempt& attempt, const StepInfo& info, std::span<const std::size_t> tensors) {
  over_.assign(tensors.begin(), tensors.end());
  for (std::size_t t = 0; t < in_.size() && tensors.empty(); ++t) over_.push_back(t);
  std::ranges::sort(over_);
  if (const auto twice = std::ranges::adjacent_find(over_); twice != over_.end())
    throw UsageError("a step over tensor '" + model()[*twice].name + "' twice");
  require_free(attempt);
  for (const std::size_t tensor : over_)
    if (in_[tensor]) retire(*in_[tensor]);
  const Before before = past();
  for (const std::size_t tensor : over_) past_[tensor].outcome = Outcome::rolled_back;
  attempt.begin(info, tensors.empty() ? tensors : over_, before);
  for (const std::size_t tensor : over_) in_[tensor] = &attempt;
}

// Throws UsageError when a tensor of the step to begin is in one that is open.
void Driver::require_free(const Attempt& attempt) const {
  const std::lock_guard lock(common_.mutex);
  if (attempt.under_way())
    throw UsageError("begin within step " + std::to_string(attempt.step()) +
                     "; allowed: after finish");
  for (const std::size_t tensor : over_) {
    const Attempt* const other = in_[tensor];
    if (!other) continue;
    if (other->under_way())
      throw UsageError("tensor '" + model()[tensor].name + "' is in step " +
                       std::to_string(other->step()) + ", which is open; allowed: after finish");
    if (other->outcome == Outcome::in_doubt) std::rethrow_exception(other->failure);
  }
  const bool others = std::ranges::any_of(attempts_, [](const auto& a) { return a->under_way(); });
  if (others && common_.transport.blocks())
    throw UsageError(
        "begin within another step over a transport that blocks; allowed: after its "
        "finish");
}

// The tensors of a step that has ended may be in another. Silence is consent.
void Driver::retire(Attempt& attempt) {
  if (attempt.pending) make_commit(attempt);
  for (const std::size_t tensor : attempt.submitted.over()) {
    if (in_[tensor] != &attempt) continue;
    past_[tensor].outcome = attempt.outcome;
    in_[tensor] = nullptr;
  }
}

// Of the tensors of the step to begin.
Before Driver::past() const {
  if (over_.empty()) return {};
  const Outcome first = past_[over_[0]].outcome;
  Before before{.outcome = first};
  const auto same = [&](std::size_t tensor) { return past_[tensor].outcome == first; };
  if (std::ranges::all_of(over_, same)) return before;
  for (const std::size_t tensor : over_)
    before.mixed = hash_of(before.mixed, static_cast<std::uint32_t>(past_[tensor].outcome));
  return before;
}

void Driver::let_go(Attempt& attempt) noexcept {
  try {
    abort(attempt, "the host has let go of the step");
    const Pause pause(*this);
    if (attempt.outcome == Outcome::in_doubt) return;  // until it is settled
    retire(attempt);
    held_[attempt.slot()] = false;
  } catch (const std::exception&) {  // no memory: the slot stays taken
  }
}

void Driver::make_commit(Attempt& attempt) {
  attempt.commit();
  for (const std::size_t tensor : attempt.submitted.over())
    past_[tensor].committed = attempt.number() + 1;
}

// Each says in which attempt a tensor was committed last. A step in doubt holds its tensors, so
// nobody can have committed a later one of them.
Outcome Driver::settle(Transport& among) {
  for (const auto& attempt : attempts_) require_closed(*attempt, true);
  const Pause pause(*this);
  for (const auto& attempt : attempts_)
    if (attempt->pending) make_commit(*attempt);
  if (past_.empty()) return whole().outcome;
  Buffer mine;
  for (const Past& past : past_) mine.append_number(past.committed);
  std::vector<Buffer> all;
  Conversation(among, Deadline::in(common_.setup.timeout_seconds, "settling the last steps"))
      .all_gather(mine.view(), all, mine.size());
  for (const Buffer& one : all)
    if (one.size() != mine.size()) throw DataError("a rank's last steps are of another model");
  for (const auto& attempt : attempts_) {
    if (attempt->outcome != Outcome::in_doubt) continue;
    const std::size_t tensor = attempt->submitted.over()[0];
    const auto made = [&](const Buffer& one) {
      return load_number(one, tensor) == attempt->number() + 1;
    };
    if (std::ranges::any_of(all, made)) {
      attempt->write_rest();
      make_commit(*attempt);
    } else {
      const std::lock_guard lock(common_.mutex);
      attempt->outcome = Outcome::rolled_back;
    }
  }
  return whole().outcome;
}

// Ranks that have gone on from different groups would share out different debts.
void Driver::take_over(const Driver& settled) {
  const State own = settled.save();
  const Buffer told = write_state(to_be_told(own));
  std::uint8_t mine[16];
  store<std::uint64_t>(mine, settled.common_.ranks);
  store<std::uint64_t>(mine + 8, told.size());
  Conversation among(common_.transport, Deadline::in(common_.setup.timeout_seconds,
                                                     "taking over what was remembered"));
  std::vector<Buffer> all;
  among.all_gather(mine, all, sizeof mine);
  std::uint64_t most = 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].size() != sizeof mine || load_number(all[rank], 0) != settled.common_.ranks)
      throw DataError("rank " + std::to_string(rank) + " comes from another group than this one",
                      static_cast<int>(rank));
    most = std::max(most, load_number(all[rank], 1));
  }
  among.all_gather(told.view(), all, most);
  std::vector<State> states;
  for (const Buffer& one : all) states.push_back(read_state(one.view()));
  State mine_now = among_survivors(own, states, static_cast<int>(settled.common_.ranks));
  // Of shards whose owner is lost nothing is owed any more.
  for (const auto& [name, values] : save())
    if (name.starts_with(kOfShard))
      if (!mine_now.contains(kOfAllShards + name.substr(kOfShard.size())))
        mine_now.emplace(name, values);
  load(mine_now);
}

// One round of work. False: there was nothing to do, also after a pause until then at most.
bool Driver::drive(const std::optional<Clock::time_point>& pause) {
  const std::lock_guard driving(driving_);
  bool any = false, failed = false;
  for (const auto& attempt : attempts_) {
    {
      const std::lock_guard lock(common_.mutex);
      if (attempt->phase != Phase::open) continue;
    }
    try {
      any |= attempt->pump();
    } catch (...) {
      attempt->fail();
      failed = true;
    }
  }
  if (pause && !any && !failed) rest(*pause);
  return any;
}

// Waits for the transport, until then at most.
void Driver::rest(Clock::time_point until) {
  Attempt* waiting = nullptr;
  Transfer* first = nullptr;
  for (const auto& attempt : attempts_) {
    Transfer* const one = attempt->phase == Phase::open ? attempt->awaited() : nullptr;
    if (!one || (first && first->due <= one->due)) continue;
    first = one;
    waiting = attempt.get();
  }
  if (!first || !lies_down()) return;
  try {
    waiting->rest(*first, until);
  } catch (...) {
    waiting->fail();
  }
  const std::lock_guard lock(common_.mutex);
  resting_ = false;
}

// Whoever brings something new either is seen here or sees that somebody has to be woken.
bool Driver::lies_down() {
  const std::lock_guard lock(common_.mutex);
  resting_ = wanted_ == 0 && std::ranges::none_of(
                                 attempts_, [](const auto& attempt) { return attempt->has_new(); });
  return resting_;
}

// The engine's thread. Without anything that flies it waits for callers; who keeps it away calls it
// back.
void Driver::run() {
  const auto has_work = [&] {
    parked_ = !quitting_ && wanted_ > 0;
    return !parked_ && (quitting_ || left_ ||
                        std::ranges::any_of(
                            attempts_, [](const auto& attempt) { return attempt->has_work(); }));
  };
  for (bool more = false;;) {
    {
      std::unique_lock lock(common_.mutex);
      left_ = more;
      work_.wait(lock, has_work);
      if (quitting_) return;
    }
    for (more = true; more && wanted_ == 0;) more = drive(Clock::time_point::max());
  }
}

}  // namespace laconic
