// The training loop.
#include "laconic/trainer/train.h"

#include <array>
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
#include "laconic/exchange/conversation.h"
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

// What is the same for all workers and does not change.
struct Plan {
  const Settings& settings;
  const Data& data;
  const Output& output;
  const Observer& observer;
  std::uint64_t steps, evaluate_every;
  std::string settings_text;
  std::optional<Checkpoint> from;

  std::string path(const std::string& name) const { return output.folder + "/" + name; }
};

class Worker {
 public:
  Worker(const Plan& plan, Transport& transport)
      : plan_(plan),
        transport_(transport),
        rank_(static_cast<std::size_t>(transport.rank())),
        replica_(plan.settings.model, plan.data, plan.settings.seed),
        batches_(plan.data.train.count(), plan.settings.workers, plan.settings.batch,
                 plan.settings.split, plan.settings.seed),
        method_(make_method({.model = replica_.model(),
                             .recipe = plan.settings.recipe,
                             .seed = plan.settings.seed,
                             .timeout_seconds = plan.settings.timeout_seconds},
                            plan.settings.optimizer, replica_.parameters(), transport)),
        schedule_{plan.settings.lr, plan.settings.warmup, plan.settings.decay, plan.steps} {
    if (plan.from) restore(*plan.from);
  }

  void run() {
    const std::uint64_t start = step_;
    while (step_ < plan_.steps && !stopping_) {
      if (step_ % plan_.evaluate_every == 0) evaluate();
      one_step();
      ++step_;
      compare_replicas();
      const bool due =
          plan_.output.checkpoint_every > 0 && step_ % plan_.output.checkpoint_every == 0;
      if (due && step_ < plan_.steps && !stopping_) checkpoint();
      if (rank_ == 0 && plan_.observer.step)
        plan_.observer.step({step_, plan_.steps, watch_seconds(), step_ - start});
    }
    if (step_ == plan_.steps) {
      account(method_->finish(replica_.parameters(), info(step_ - 1)));
      evaluate();
    }
    checkpoint();
    if (step_ == plan_.steps && !plan_.output.folder.empty()) write_model();
  }

  Result result() const { return {evaluations_, step_, plan_.steps, count_of(replica_.model())}; }

 private:
  // gradient -> what the recipe makes of it.
  void one_step() {
    Stopwatch watch;
    loss_sum_ += replica_.learn(plan_.data.train, batches_.at(step_, rank_));
    ++loss_count_;
    totals_.compute_seconds += watch.lap();
    if (rank_ == 0 && std::ranges::count(plan_.output.record, step_) > 0) record();
    const StepStats stats = method_->step(replica_.parameters(), replica_.gradient(), info(step_));
    residual_norm_ = stats.residual_norm;
    account(stats);
  }

  StepInfo info(std::uint64_t step) const { return {.step = step, .lr = schedule_.at(step)}; }

  void account(const StepStats& stats) {
    skipped_ += !stats.finite;
    totals_.wire_bytes += stats.wire_bytes;
    totals_.traffic_bytes += stats.traffic_bytes;
    totals_.dense_bytes += stats.dense_bytes;
    totals_.rounds += stats.rounds;
    totals_.up_bytes += stats.up_bytes;
    totals_.down_bytes += stats.down_bytes;
    totals_.compress_seconds += stats.compress_seconds;
    totals_.exchange_seconds += stats.exchange_seconds;
    totals_.decompress_seconds += stats.decompress_seconds;
    totals_.update_seconds += stats.update_seconds;
  }

  // Equal bit for bit, where they are to be: checked, not assumed. All learn here that one is to
  // stop.
  void compare_replicas() {
    const auto p = replica_.parameters();
    const std::uint32_t mine[] = {
        crc32c({reinterpret_cast<const std::uint8_t*>(p.data()), p.size_bytes()}),
        plan_.observer.stop && *plan_.observer.stop};
    const auto all = gather(mine, "all_gather of fingerprints");
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      stopping_ |= all[rank][1] != 0;
      if (method_->replicas_equal() && all[rank][0] != all[0][0])
        throw DataError("after step " + std::to_string(step_) + " rank " + std::to_string(rank) +
                        "'s replica differs from rank 0's");
    }
  }

  // A few numbers of every rank's, by rank.
  template <class T, std::size_t n>
  std::vector<std::array<T, n>> gather(const T (&mine)[n], std::string_view operation) {
    std::vector<Buffer> all;
    Conversation(transport_, deadline(operation))
        .all_gather({reinterpret_cast<const std::uint8_t*>(mine), sizeof mine}, all, sizeof mine);
    std::vector<std::array<T, n>> numbers(all.size());
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      for (std::size_t i = 0; i < n; ++i)
        numbers[rank][i] = load<T>(all[rank].data() + i * sizeof(T));
    return numbers;
  }

  Deadline deadline(std::string_view operation) const {
    return Deadline::in(plan_.settings.timeout_seconds, operation);
  }

  // Each rank scores its share of the test images.
  void evaluate() {
    if (!evaluations_.empty() && evaluations_.back().step == step_) return;
    const std::size_t images = plan_.data.test.count(), ranks = plan_.settings.workers;
    const auto score = [&] {
      return replica_.score(plan_.data.test, images * rank_ / ranks, images * (rank_ + 1) / ranks);
    };
    const Score own = score();
    Score mean = own;
    if (!method_->replicas_equal()) {
      auto other = mean_model();
      std::ranges::swap_ranges(other, replica_.parameters());
      mean = score();
      std::ranges::swap_ranges(other, replica_.parameters());
    }
    const double mine[] = {static_cast<double>(mean.correct), mean.loss, loss_sum_,
                           static_cast<double>(loss_count_), static_cast<double>(own.correct)};
    double sum[5] = {};
    for (const auto& part : gather(mine, "all_gather of scores"))
      for (std::size_t i = 0; i < 5; ++i) sum[i] += part[i];
    const double n = static_cast<double>(images);
    evaluations_.push_back(
        {.step = step_,
         .epoch = static_cast<double>(step_) / static_cast<double>(batches_.steps_per_epoch()),
         .loss = sum[3] > 0 ? sum[2] / sum[3] : sum[1] / n,
         .test_loss = sum[1] / n,
         .accuracy = sum[0] / n,
         .worker_accuracy = sum[4] / n,
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

  // The mean of all replicas, the same on all ranks; this rank's own where all are equal.
  std::vector<float> mean_model() {
    const auto own = replica_.parameters();
    std::vector<float> mean(own.begin(), own.end());
    if (method_->replicas_equal()) return mean;
    Conversation(transport_, deadline("all_reduce of models")).all_reduce(mean);
    for (float& value : mean) value /= static_cast<float>(plan_.settings.workers);
    return mean;
  }

  void write_model() {
    const auto model = mean_model();
    if (rank_ != 0) return;
    State state;
    save_tensors("parameters", replica_.model(), model, state);
    write_file(plan_.path("model.lac"), write_state(state).view());
  }

  void checkpoint() {
    if (plan_.output.folder.empty()) return;
    const double loss[] = {loss_sum_};
    std::vector<double> losses;
    for (const auto& of_rank : gather(loss, "all_gather of losses")) losses.push_back(of_rank[0]);
    Saved saved = method_->save(replica_.parameters());
    std::vector<State> own = gather_states(saved.own);
    if (rank_ == 0)
      write_checkpoint(plan_.path("checkpoint.lac"), {.settings = plan_.settings_text,
                                                      .step = step_,
                                                      .totals = totals_,
                                                      .loss_sums = losses,
                                                      .loss_count = loss_count_,
                                                      .skipped = skipped_,
                                                      .evaluations = evaluations_,
                                                      .common = std::move(saved.common),
                                                      .own = std::move(own)});
  }

  // On rank 0 every rank's state, by rank; on the others nothing.
  std::vector<State> gather_states(const State& state) {
    const Buffer mine = write_state(state);
    const std::uint64_t size[] = {mine.size()};
    const auto sizes = gather(size, "all_gather of sizes");
    std::vector<Buffer> all(rank_ == 0 ? sizes.size() : 0);
    std::vector<Receive> receives;
    for (std::size_t rank = 1; rank < all.size(); ++rank)
      receives.push_back(Receive::exactly(static_cast<int>(rank), all[rank].reset(sizes[rank][0])));
    const std::vector<Send> sends(rank_ == 0 ? 0 : 1, Send{0, mine.view()});
    Conversation(transport_, deadline("exchange of states")).exchange(sends, receives);
    std::vector<State> states;
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      states.push_back(read_state(rank == 0 ? mine.view() : all[rank].view()));
    return states;
  }

  void restore(const Checkpoint& c) {
    method_->load({c.common, c.own.at(rank_)}, replica_.parameters());
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
  Transport& transport_;
  std::size_t rank_;
  Replica replica_;
  Batches batches_;
  std::unique_ptr<Method> method_;
  Schedule schedule_;
  std::uint64_t step_ = 0, loss_count_ = 0, skipped_ = 0;
  double loss_sum_ = 0, residual_norm_ = 0;
  bool stopping_ = false;
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

Plan plan_of(const Settings& settings, const Data& data, const Output& output,
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
  auto from = earlier(output, as_json);
  const std::uint64_t times = std::max<std::uint64_t>(1, settings.evaluations);
  const std::uint64_t every =
      settings.evaluate_every > 0 ? settings.evaluate_every : (steps + times - 1) / times;
  return {settings, data, output, observer, steps, every, as_json.dump(), std::move(from)};
}

}  // namespace

Result train(const Settings& settings, const Data& data, const Output& output,
             const Observer& observer) {
  const Plan plan = plan_of(settings, data, output, observer);
  make_folder(output.folder);
  auto ends = make_thread_transports(static_cast<int>(settings.workers));
  std::vector<std::exception_ptr> failures(settings.workers);
  Result result;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < settings.workers; ++rank)
    threads.emplace_back([&, rank, end = std::move(ends[rank])]() mutable {
      try {
        use_one_core();
        Worker worker(plan, *end);
        worker.run();
        if (rank == 0) result = worker.result();
      } catch (...) {
        failures[rank] = std::current_exception();
      }
      end.reset();  // whoever waits for this rank is told
    });
  for (auto& thread : threads) thread.join();
  rethrow_first(failures);
  return result;
}

Result train_rank(const Settings& settings, const Data& data, const Output& output,
                  const Observer& observer, Transport& transport) {
  if (settings.workers != static_cast<std::size_t>(transport.size()))
    throw UsageError(std::to_string(settings.workers) + " workers over a transport of " +
                     std::to_string(transport.size()) + " ranks; both must be the same");
  const Plan plan = plan_of(settings, data, output, observer);
  if (transport.rank() == 0) make_folder(output.folder);
  use_one_core();
  Worker worker(plan, transport);
  worker.run();
  return worker.result();
}

}  // namespace laconic::trainer
