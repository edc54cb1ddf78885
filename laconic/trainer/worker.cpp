// The training loop of one rank.
#include "laconic/trainer/worker.h"

#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/codecs/crc32c.h"
#include "laconic/trainer/traces.h"

namespace laconic::trainer {
namespace {

// Steps between comparisons of replicas, and between questions whether somebody wishes to stop
// where that does not travel with every step.
constexpr std::uint64_t kCompareEvery = 100, kAskEvery = 10;

constexpr std::uint32_t kStop = 1;  // in StepInfo::flags

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::uint32_t fingerprint(std::span<const float> model) {
  return crc32c({reinterpret_cast<const std::uint8_t*>(model.data()), model.size_bytes()});
}

std::string rank_text(std::size_t rank) { return "rank " + std::to_string(rank); }

}  // namespace

Worker::Worker(const Run& run, Transport& transport)
    : run_(run),
      transport_(transport),
      group_(transport, run.settings.timeout_seconds),
      meter_(transport),
      replica_(run.settings.model, run.data, run.settings.seed),
      batches_(run.data.train.count(), run.settings.workers, run.settings.batch, run.settings.split,
               run.settings.seed, run.data.train.labels),
      descent_({.model = replica_.model(),
                .recipe = run.settings.recipe,
                .seed = run.settings.seed,
                .timeout_seconds = run.settings.timeout_seconds,
                .threads = run.settings.threads,
                .guard = run.settings.guard},
               run.settings.optimizer, run.settings.bucket_bytes, replica_.parameters(), transport),
      schedule_{run.settings.lr, run.settings.warmup, run.settings.decay, run.steps} {
  if (run.from) restore(*run.from);
  first_step_ = course_.step;
}

void Worker::train() {
  note_regrouping();
  compare_notes();
  if (group_.rank() == 0 && run_.leaves_traces())
    for (const char* name : {"guard.jsonl", "steps.jsonl"})
      keep_lines_before(run_.path(name), course_.step);
  while (course_.step < run_.steps && !stopping_) {
    if (course_.step % run_.evaluate_every == 0) evaluate();
    one_step();
    ++course_.step;
    if (course_.step % kCompareEvery == 0) compare_replicas();
    if (!descent_.votes() && course_.step % kAskEvery == 0) ask_to_stop();
    const std::uint64_t every = run_.output.checkpoint_every;
    const bool due = every > 0 && course_.step % every == 0 && course_.step < run_.steps;
    if (due && !stopping_) checkpoint();
    show_progress();
  }
  if (course_.step == run_.steps) finish();
  checkpoint();
  if (course_.step == run_.steps) leave_model();
}

// The method's own agreement knows neither optimiser nor data, nor where the run stands.
void Worker::compare_notes() {
  const std::uint64_t settings = crc32c(as_bytes(run_.settings_text));
  const auto all = group_.gather(std::array{settings, course_.step}, "all_gather of notes");
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank][0] != all[0][0])
      throw UsageError(rank_text(rank) + " has other settings or data than rank 0");
    if (all[rank][1] != all[0][1])
      throw UsageError(rank_text(rank) + " goes on from step " + std::to_string(all[rank][1]) +
                       " and rank 0 from step " + std::to_string(all[0][1]) +
                       "; all ranks must read the same checkpoint");
  }
  compare_replicas();
}

Result Worker::result() const {
  return {course_.evaluations, course_.step, run_.steps, count_of(replica_.model())};
}

// gradient -> what the recipe and the optimiser make of it. Gradients that are to be recorded stay
// with this rank until they are.
void Worker::one_step() {
  Stopwatch watch;
  const bool recorded =
      group_.rank() == 0 && std::ranges::count(run_.output.record, course_.step) > 0;
  descent_.begin(replica_.parameters(), replica_.gradient(), info(course_.step));
  try {
    learn(run_.settings.bucket_bytes > 0 && !recorded);
  } catch (const std::exception& error) {
    descent_.abandon(error.what());
    throw;
  }
  const double computed = watch.lap();
  course_.totals.compute_seconds += computed;
  if (recorded)
    write_gradient(run_.path("gradients-step-" + std::to_string(course_.step) + ".npz"),
                   replica_.model(), replica_.gradient());
  watch.lap();
  const StepStats stats = descent_.end();
  const double ended = watch.lap();
  account(stats, ended);
  if (group_.rank() == 0 && run_.leaves_traces()) trace(stats, computed, ended);
  if (descent_.votes()) stopping_ = (stats.flags & kStop) != 0;
}

void Worker::trace(const StepStats& stats, double computed, double ended) {
  add_lines(run_.path("guard.jsonl"), descent_.take_guard_record());
  if (!run_.output.trace) return;
  add_lines(run_.path("steps.jsonl"), {write_step({.step = course_.step,
                                                   .lane = stats.lane,
                                                   .compute = computed,
                                                   .exchange = ended - stats.update_seconds,
                                                   .update = stats.update_seconds,
                                                   .bytes = stats.traffic_bytes,
                                                   .units = descent_.unit_times()})});
}

// Tensors leave as they become final, or stay until all are.
void Worker::learn(bool as_they_come) {
  Replica::Ready ready;
  if (as_they_come) ready = [this](std::size_t tensor) { descent_.ready(tensor); };
  loss_sum_ += replica_.learn(run_.data.train, batches_.at(course_.step, group_.rank()), ready);
  ++course_.loss_count;
  course_.images += run_.settings.workers * run_.settings.batch;
}

StepInfo Worker::info(std::uint64_t step) const {
  return {.step = step, .lr = schedule_.at(step), .flags = wishes_to_stop() ? kStop : 0};
}

bool Worker::wishes_to_stop() const { return run_.observer.stop && *run_.observer.stop; }

// Once: a run that has come to its end and is resumed has no more to do.
void Worker::finish() {
  if (!course_.evaluations.empty() && course_.evaluations.back().step == course_.step) return;
  Stopwatch watch;
  StepInfo last = info(course_.step - 1);
  last.plain = run_.settings.flush;
  const StepStats stats = descent_.finish(replica_.parameters(), replica_.gradient(), last);
  account(stats, watch.lap());
  evaluate();
}

void Worker::account(const StepStats& stats, double seconds) {
  course_.skipped += !stats.finite;
  course_.totals.add(stats);
  course_.totals.exposed_seconds += seconds - stats.update_seconds;
}

template <class F>
void Worker::aside(F f) {
  const TrafficMeter meter(transport_);
  f();
  StepStats sent;
  meter.into(sent);
  course_.totals.aside_bytes += sent.traffic_bytes;
  course_.totals.aside_rounds += sent.rounds;
}

const Totals& Worker::totals() {
  StepStats sent;
  meter_.into(sent);
  course_.totals.traffic_bytes = bytes_before_ + sent.traffic_bytes;
  course_.totals.rounds = rounds_before_ + sent.rounds;
  return course_.totals;
}

// Equal bit for bit, where they are to be: checked, not assumed.
void Worker::compare_replicas() {
  if (!descent_.replicas_equal()) return;
  const auto all =
      group_.gather(std::array{fingerprint(replica_.parameters())}, "all_gather of fingerprints");
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      throw DataError("after step " + std::to_string(course_.step) + " " + rank_text(rank) +
                      "'s replica differs from rank 0's");
}

void Worker::ask_to_stop() {
  stopping_ = group_.any(wishes_to_stop(), "all_gather of wishes to stop");
}

// Whom this rank mixes with in this step.
std::vector<int> Worker::neighbours() const {
  std::vector<int> ranks;
  const Recipe& recipe = run_.settings.recipe;
  if (recipe.mixer.empty()) return ranks;
  const Graph graph = make_graph(recipe, transport_.size());
  for (const Neighbour& of : graph.neighbours(transport_.rank(), course_.step))
    ranks.push_back(of.rank);
  return ranks;
}

void Worker::evaluate() {
  auto& evaluations = course_.evaluations;
  if (!evaluations.empty() && evaluations.back().step == course_.step) return;
  Evaluation evaluation;
  aside([&] {
    compare_replicas();
    evaluation =
        trainer::evaluate(replica_, descent_.replicas_equal(), neighbours(), run_.data.test,
                          {.sum = loss_sum_, .count = course_.loss_count}, group_);
  });
  evaluation.step = course_.step;
  evaluation.epoch = static_cast<double>(course_.images) / static_cast<double>(epoch_images());
  evaluation.residual_norm = descent_.residual_norm();
  evaluation.skipped = course_.skipped;
  evaluation.totals = totals();
  evaluations.push_back(evaluation);
  loss_sum_ = 0;
  course_.loss_count = 0;
  if (group_.rank() != 0) return;
  if (run_.leaves_traces()) write_metrics(run_.path("metrics.jsonl"), evaluations);
  if (run_.observer.evaluation) run_.observer.evaluation(evaluation);
}

void Worker::checkpoint() {
  if (!run_.leaves_traces()) return;
  std::vector<double> loss_sums;
  Saved saved = descent_.save(replica_.parameters());
  std::vector<State> own;
  aside([&] {
    for (const auto& of_rank : group_.gather(std::array{loss_sum_}, "all_gather of losses"))
      loss_sums.push_back(of_rank[0]);
    own = group_.states_at_first(saved.own);
  });
  totals();
  if (group_.rank() == 0)
    write_checkpoint(run_.path("checkpoint.lac"), {.settings = run_.settings_text,
                                                   .course = course_,
                                                   .loss_sums = std::move(loss_sums),
                                                   .common = std::move(saved.common),
                                                   .own = std::move(own)});
}

void Worker::restore(const Checkpoint& from) {
  descent_.load({from.common, from.own.at(group_.rank())}, replica_.parameters());
  course_ = from.course;
  bytes_before_ = course_.totals.traffic_bytes;
  rounds_before_ = course_.totals.rounds;
  loss_sum_ = from.loss_sums.at(group_.rank());
}

void Worker::note_regrouping() const {
  const std::size_t before = run_.workers_before, now = run_.settings.workers;
  if (before == now || group_.rank() != 0 || !run_.observer.note) return;
  run_.observer.note("the run had " + std::to_string(before) + " workers and goes on with " +
                     std::to_string(now) + "; what was owed to the model is theirs now");
}

void Worker::leave_model() {
  if (!run_.leaves_traces()) return;
  std::vector<float> model;
  aside([&] { model = mean_model(replica_, descent_.replicas_equal(), group_); });
  if (group_.rank() == 0) write_model(run_.path("model.lac"), replica_.model(), model);
}

void Worker::show_progress() const {
  if (group_.rank() == 0 && run_.observer.step)
    run_.observer.step(
        {course_.step, run_.steps, seconds_since(started_), course_.step - first_step_});
}

}  // namespace laconic::trainer
