// The training loop.
#include "laconic/trainer/train.h"

#include <barrier>
#include <cmath>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "laconic/base/errors.h"
#include "laconic/base/file.h"
#include "laconic/base/npy.h"
#include "laconic/base/npz.h"
#include "laconic/codecs/crc32c.h"
#include "laconic/trainer/checkpoint.h"
#include "laconic/trainer/replica.h"
#include "laconic/transports/threads.h"

namespace laconic::trainer {
namespace {

using nlohmann::json;

std::uint64_t steps_of(const Settings& settings, std::uint64_t per_epoch) {
  if (settings.steps > 0) return settings.steps;
  if (!(settings.epochs > 0 && settings.epochs <= 1e6))
    throw UsageError("epochs " + std::to_string(settings.epochs) +
                     "; allowed: above 0, up to 1000000");
  return std::max<std::uint64_t>(
      1,
      static_cast<std::uint64_t>(std::llround(settings.epochs * static_cast<double>(per_epoch))));
}

// All that decides the run's result.
json settings_to_json(const Settings& s, const Data& data, std::uint64_t steps) {
  return {{"data", data.name},
          {"images", data.train.count()},
          {"model", s.model},
          {"recipe", json::parse(write_recipe(s.recipe))},
          {"workers", s.workers},
          {"batch", s.batch},
          {"steps", steps},
          {"optimizer", s.optimizer.kind},
          {"momentum", s.optimizer.momentum},
          {"nesterov", s.optimizer.nesterov},
          {"weight decay", s.optimizer.weight_decay},
          {"lr", s.lr},
          {"warmup", s.warmup},
          {"decay", s.decay},
          {"sharded", s.split == Split::sharded},
          {"seed", s.seed}};
}

// What the workers of a run share. Ranks write only to their own entries; the barrier orders the
// rest.
class Shared {
 public:
  Shared(std::size_t workers, const std::atomic<bool>* stop)
      : fingerprints(workers),
        losses(workers),
        memories(workers),
        stop_(stop),
        barrier_(static_cast<std::ptrdiff_t>(workers), Turn{this}) {}

  std::vector<std::uint32_t> fingerprints;  // of each rank's parameters
  std::vector<double> losses;               // for the checkpoint being made
  std::vector<State> memories;              // likewise

  void wait() { barrier_.arrive_and_wait(); }
  void leave() { barrier_.arrive_and_drop(); }
  bool stopping() const { return stopping_; }

 private:
  // Runs once when all have arrived, so that all see the same answer.
  struct Turn {
    Shared* self;
    void operator()() noexcept { self->stopping_ = self->stop_ && *self->stop_; }
  };

  const std::atomic<bool>* stop_;
  bool stopping_ = false;
  std::barrier<Turn> barrier_;
};

// What is the same for all workers and does not change.
struct Plan {
  const Settings& settings;
  const Data& data;
  const Output& output;
  const Observer& observer;
  std::uint64_t steps, evaluate_every;
  std::string settings_text;
  const std::optional<Checkpoint>& from;

  std::string path(const std::string& name) const { return output.folder + "/" + name; }
};

class Worker {
 public:
  Worker(const Plan& plan, Shared& shared, Transport& transport)
      : plan_(plan),
        shared_(shared),
        transport_(transport),
        rank_(static_cast<std::size_t>(transport.rank())),
        replica_(plan.settings.model, plan.data, plan.settings.seed),
        batches_(plan.data.train.count(), plan.settings.workers, plan.settings.batch,
                 plan.settings.split, plan.settings.seed),
        optimizer_(make_optimizer(plan.settings.optimizer, replica_.model())),
        aggregator_(make_aggregator({.model = replica_.model(),
                                     .recipe = plan.settings.recipe,
                                     .seed = plan.settings.seed,
                                     .timeout_seconds = plan.settings.timeout_seconds},
                                    transport)),
        schedule_{plan.settings.lr, plan.settings.warmup, plan.settings.decay, plan.steps} {
    if (plan.from) restore(*plan.from);
  }

  void run() {
    const std::uint64_t start = step_;
    while (step_ < plan_.steps && !shared_.stopping()) {
      if (step_ % plan_.evaluate_every == 0) evaluate();
      one_step();
      ++step_;
      compare_replicas();
      const bool due =
          plan_.output.checkpoint_every > 0 && step_ % plan_.output.checkpoint_every == 0;
      if (due && step_ < plan_.steps && !shared_.stopping()) checkpoint();
      if (rank_ == 0 && plan_.observer.step)
        plan_.observer.step({step_, plan_.steps, watch_seconds(), step_ - start});
    }
    if (step_ == plan_.steps) evaluate();
    checkpoint();
    if (rank_ == 0 && step_ == plan_.steps && !plan_.output.folder.empty())
      write_file(plan_.path("model.lac"), write_state(parameters()).view());
  }

  Result result() const { return {evaluations_, step_, plan_.steps, count_of(replica_.model())}; }

 private:
  // gradient -> mean over ranks -> update. A step with NaN or Inf on any rank changes nothing.
  void one_step() {
    Stopwatch watch;
    loss_sum_ += replica_.learn(plan_.data.train, batches_.at(step_, rank_));
    ++loss_count_;
    totals_.compute_seconds += watch.lap();
    if (rank_ == 0 && std::ranges::count(plan_.output.record, step_) > 0) record();
    const float lr = schedule_.at(step_);
    watch.lap();
    const StepStats stats =
        aggregator_->average(replica_.gradient(), {step_, lr, replica_.parameters()});
    watch.lap();
    if (stats.finite) optimizer_->update(replica_.parameters(), replica_.gradient(), lr, step_);
    totals_.update_seconds += watch.lap();
    skipped_ += !stats.finite;
    residual_norm_ = stats.residual_norm;
    totals_.wire_bytes += stats.wire_bytes;
    totals_.traffic_bytes += stats.traffic_bytes;
    totals_.dense_bytes += stats.dense_bytes;
    totals_.rounds += stats.rounds;
    totals_.compress_seconds += stats.compress_seconds;
    totals_.exchange_seconds += stats.exchange_seconds;
    totals_.decompress_seconds += stats.decompress_seconds;
  }

  // Equal bit for bit after every step: checked, not assumed.
  void compare_replicas() {
    const auto p = replica_.parameters();
    shared_.fingerprints[rank_] =
        crc32c({reinterpret_cast<const std::uint8_t*>(p.data()), p.size_bytes()});
    shared_.wait();
    if (shared_.fingerprints[rank_] != shared_.fingerprints[0])
      throw DataError("after step " + std::to_string(step_) + " rank " + std::to_string(rank_) +
                      "'s replica differs from rank 0's");
    shared_.wait();  // before anybody writes a fingerprint again
  }

  // Each rank scores its share of the test images.
  void evaluate() {
    if (!evaluations_.empty() && evaluations_.back().step == step_) return;
    const std::size_t images = plan_.data.test.count(), ranks = plan_.settings.workers;
    const Score score =
        replica_.score(plan_.data.test, images * rank_ / ranks, images * (rank_ + 1) / ranks);
    const double mine[] = {static_cast<double>(score.correct), score.loss, loss_sum_,
                           static_cast<double>(loss_count_)};
    std::vector<Buffer> all;
    transport_.all_gather({reinterpret_cast<const std::uint8_t*>(mine), sizeof mine}, all,
                          sizeof mine,
                          Deadline::in(plan_.settings.timeout_seconds, "all_gather of scores"));
    double sum[4] = {};
    for (const Buffer& part : all)
      for (std::size_t i = 0; i < 4; ++i) sum[i] += load<double>(part.data() + i * sizeof(double));
    const double n = static_cast<double>(images);
    evaluations_.push_back(
        {.step = step_,
         .epoch = static_cast<double>(step_) / static_cast<double>(batches_.steps_per_epoch()),
         .loss = sum[3] > 0 ? sum[2] / sum[3] : sum[1] / n,
         .test_loss = sum[1] / n,
         .accuracy = sum[0] / n,
         .residual_norm = residual_norm_,
         .skipped = skipped_,
         .totals = totals_});
    loss_sum_ = 0;
    loss_count_ = 0;
    if (rank_ != 0) return;
    if (!plan_.output.folder.empty()) write_metrics();
    if (plan_.observer.evaluation) plan_.observer.evaluation(evaluations_.back());
  }

  void write_metrics() const {
    std::string lines;
    for (const Evaluation& evaluation : evaluations_) lines += write_evaluation(evaluation) + "\n";
    write_file(plan_.path("metrics.jsonl"), as_bytes(lines));
  }

  State parameters() {
    State state;
    save_tensors("parameters", replica_.model(), replica_.parameters(), state);
    return state;
  }

  void checkpoint() {
    if (plan_.output.folder.empty()) return;
    shared_.memories[rank_] = aggregator_->save();
    shared_.losses[rank_] = loss_sum_;
    shared_.wait();
    if (rank_ == 0)
      write_checkpoint(plan_.path("checkpoint.lac"), {.settings = plan_.settings_text,
                                                      .step = step_,
                                                      .totals = totals_,
                                                      .loss_sums = shared_.losses,
                                                      .loss_count = loss_count_,
                                                      .skipped = skipped_,
                                                      .evaluations = evaluations_,
                                                      .parameters = parameters(),
                                                      .optimizer = optimizer_->save(),
                                                      .memories = shared_.memories});
    shared_.wait();  // the memories are on disk before they change
  }

  void restore(const Checkpoint& c) {
    expect_state(c.parameters, {"parameters"}, replica_.model());
    const auto values = load_tensors("parameters", replica_.model(), c.parameters);
    std::ranges::copy(values, replica_.parameters().begin());
    optimizer_->load(c.optimizer);
    aggregator_->load(c.memories.at(rank_));
    step_ = c.step;
    totals_ = c.totals;
    loss_sum_ = c.loss_sums.at(rank_);
    loss_count_ = c.loss_count;
    skipped_ = c.skipped;
    evaluations_ = c.evaluations;
  }

  void record() {
    NpzWriter npz;
    std::span<const float> rest = replica_.gradient();
    for (const Tensor& tensor : replica_.model()) {
      Buffer npy;
      append_npy(NpyDtype::float32, tensor.shape, rest.first(tensor.count()), npy);
      npz.add(tensor.name, npy.view());
      rest = rest.subspan(tensor.count());
    }
    write_file(plan_.path("gradients-step-" + std::to_string(step_) + ".npz"), npz.finish().view());
  }

  double watch_seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  }

  const Plan& plan_;
  Shared& shared_;
  Transport& transport_;
  std::size_t rank_;
  Replica replica_;
  Batches batches_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Aggregator> aggregator_;
  Schedule schedule_;
  std::uint64_t step_ = 0, loss_count_ = 0, skipped_ = 0;
  double loss_sum_ = 0, residual_norm_ = 0;
  Totals totals_;
  std::vector<Evaluation> evaluations_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

// A run that is there already is gone on with only when asked to, and only with the settings it was
// started with.
std::optional<Checkpoint> earlier(const Output& output, const json& settings) {
  if (output.folder.empty()) return {};
  const std::string path = output.folder + "/checkpoint.lac";
  if (!output.resume) {
    if (std::filesystem::exists(path))
      throw UsageError(
          "'" + output.folder +
          "' holds a run already; --resume goes on with it, another --out starts anew");
    return {};
  }
  auto checkpoint = read_checkpoint(path);
  if (!checkpoint) return {};
  const json before = json::parse(checkpoint->settings);
  for (const auto& [key, value] : settings.items())
    if (before.value(key, json()) != value)
      throw UsageError("the run in '" + output.folder + "' has " + key + " " +
                       before.value(key, json()).dump() + ", not " + value.dump());
  return checkpoint;
}

void make_folder(const std::string& folder) {
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder))
    throw SystemError("folder '" + folder + "' cannot be made: " +
                      (error ? error.message() : "something else has that name"));
  // What a killed run was writing when it was killed.
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(".laconic-") && name.ends_with(".tmp"))
      std::filesystem::remove(entry.path(), error);
  }
}

// The error that started it: a rank that leaves makes the others fail in their transports.
void rethrow_first(const std::vector<std::exception_ptr>& failures) {
  std::exception_ptr transport;
  for (const auto& failure : failures) {
    if (!failure) continue;
    try {
      std::rethrow_exception(failure);
    } catch (const TransportError&) {
      if (!transport) transport = failure;
    }
  }
  if (transport) std::rethrow_exception(transport);
}

}  // namespace

Result train(const Settings& settings, const Data& data, const Output& output,
             const Observer& observer) {
  if (settings.workers < 1 || settings.workers > 256)
    throw UsageError(std::to_string(settings.workers) + " workers; allowed: 1 to 256");
  const std::uint64_t per_epoch =
      Batches(data.train.count(), settings.workers, settings.batch, settings.split, settings.seed)
          .steps_per_epoch();
  const std::uint64_t steps = steps_of(settings, per_epoch);
  check_schedule({settings.lr, settings.warmup, settings.decay, steps});
  if (!output.record.empty() && output.folder.empty())
    throw UsageError("recording gradients needs an output folder");
  for (const std::uint64_t step : output.record)
    if (step >= steps)
      throw UsageError("step " + std::to_string(step) + " cannot be recorded; allowed: 0 to " +
                       std::to_string(steps - 1));
  const json as_json = settings_to_json(settings, data, steps);
  const auto from = earlier(output, as_json);
  make_folder(output.folder);
  const std::uint64_t times = std::max<std::uint64_t>(1, settings.evaluations);
  const std::uint64_t every =
      settings.evaluate_every > 0 ? settings.evaluate_every : (steps + times - 1) / times;
  const Plan plan{settings, data, output, observer, steps, every, as_json.dump(), from};

  Shared shared(settings.workers, observer.stop);
  auto ends = make_thread_transports(static_cast<int>(settings.workers));
  std::vector<std::exception_ptr> failures(settings.workers);
  Result result;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < settings.workers; ++rank)
    threads.emplace_back([&, rank, end = std::move(ends[rank])]() mutable {
      try {
        use_one_core();
        Worker worker(plan, shared, *end);
        worker.run();
        if (rank == 0) result = worker.result();
      } catch (...) {
        failures[rank] = std::current_exception();
      }
      end.reset();  // whoever waits for this rank is told
      shared.leave();
    });
  for (auto& thread : threads) thread.join();
  rethrow_first(failures);
  return result;
}

}  // namespace laconic::trainer
