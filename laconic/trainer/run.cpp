// Checks of a run's settings, alone and against those of a run that is there already.
#include "laconic/trainer/run.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>

#include "laconic/base/errors.h"
#include "laconic/methods/method.h"
#include "laconic/trainer/regroup.h"
#include "laconic/trainer/replica.h"
#include "laconic/trainer/schedule.h"

namespace laconic::trainer {
namespace {

using nlohmann::json;

// Keys of the settings in a checkpoint; a run goes on with other workers, and with
// epochs that make as many steps.
constexpr const char *kWorkers = "workers", *kEpochs = "epochs", *kSteps = "steps",
                     *kRecipe = "recipe";

std::uint64_t steps_of(const Settings& settings, std::uint64_t per_epoch) {
  if (settings.steps > kMostSteps)
    throw UsageError(std::to_string(settings.steps) + " steps; allowed: up to " +
                     std::to_string(kMostSteps));
  if (settings.steps > 0) return settings.steps;
  if (!(settings.epochs > 0 && settings.epochs <= 1e6))
    throw UsageError("epochs " + std::to_string(settings.epochs) +
                     "; allowed: above 0, up to 1000000");
  return std::max<std::uint64_t>(
      1,
      static_cast<std::uint64_t>(std::llround(settings.epochs * static_cast<double>(per_epoch))));
}

std::uint64_t steps_per_epoch(const Settings& s, const Data& data) {
  return Batches(data.train.count(), s.workers, s.batch, s.split, s.seed, data.train.labels)
      .steps_per_epoch();
}

// All that decides the run's result.
json settings_to_json(const Settings& s, const Data& data, std::uint64_t steps) {
  return {{"data", data.name},
          {"images", data.train.count()},
          {"model", s.model},
          {kRecipe, json::parse(write_recipe(s.recipe))},
          {kWorkers, s.workers},
          {"batch", s.batch},
          {kEpochs, s.steps > 0 ? 0 : s.epochs},
          {kSteps, steps},
          {"optimizer", s.optimizer.kind},
          {"momentum", s.optimizer.momentum},
          {"nesterov", s.optimizer.nesterov},
          {"weight decay", s.optimizer.weight_decay},
          {"lr", s.lr},
          {"warmup", s.warmup},
          {"decay", s.decay},
          {"split", s.split.text()},
          {"flush", s.flush},
          {"seed", s.seed}};
}

void check_settings(const Settings& s, const Data& data, std::uint64_t steps) {
  check_schedule({s.lr, s.warmup, s.decay, steps});
  check_recipe(s.recipe);
  require_one_momentum(s.recipe, s.optimizer.has_momentum());
  make_optimizer(s.optimizer, {});
  if (s.threads < 1 || s.threads > 1024)
    throw UsageError(std::to_string(s.threads) + " threads; allowed: 1 to 1024");
  const Replica can_be_made(s.model, data, s.seed);
  check_recipe(s.recipe, can_be_made.model());
}

void check_records(const Output& output, std::uint64_t steps) {
  if (!output.record.empty() && output.folder.empty())
    throw UsageError("recording gradients needs an output folder");
  if (output.trace && output.folder.empty())
    throw UsageError("a trace of all steps needs an output folder");
  if (output.checkpoint_every > 0 && output.folder.empty())
    throw UsageError("checkpoints need an output folder");
  if (output.resume && output.folder.empty())
    throw UsageError("going on with a run needs an output folder");
  for (const std::uint64_t step : output.record)
    if (step >= steps)
      throw UsageError("step " + std::to_string(step) + " cannot be recorded; allowed: 0 to " +
                       std::to_string(steps - 1));
}

// A run that is there already is gone on with only when asked to.
std::optional<Checkpoint> earlier(const Output& output) {
  if (output.folder.empty()) return {};
  const std::string path = output.folder + "/checkpoint.lac";
  if (output.resume) return read_checkpoint(path);
  if (std::filesystem::exists(path))
    throw UsageError("'" + output.folder +
                     "' holds a run already; --resume goes on with it, another --out starts anew");
  return {};
}

// A float as it was typed, not as the double next to it; of recipes, which of two it is.
std::string shown(const json& value, const json& other) {
  if (value.is_number_float()) {
    char digits[32];
    return {digits, std::to_chars(digits, std::end(digits), value.get<float>()).ptr};
  }
  const bool named = value.is_object() && other.is_object() && value.contains("name");
  return named && value["name"] != other.value("name", json()) ? value["name"].dump()
                                                               : value.dump();
}

// And only with the settings it was started with, but for the number of workers.
void require_same(const json& before, const json& settings, const std::string& folder) {
  const auto require = [&](const std::string& key) {
    const json was = before.value(key, json()), is = settings.at(key);
    if (was != is)
      throw UsageError("the run in '" + folder + "' has " + key + " " + shown(was, is) + ", not " +
                       shown(is, was));
  };
  require(kRecipe);  // which brings other settings
  for (const auto& [key, value] : settings.items())
    if (key != kWorkers && key != kEpochs) require(key);
}

// File systems that know no such locks are taken as they are.
FolderHold held(const std::string& folder, int kind) {
  FolderHold hold(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (hold.descriptor() >= 0 && ::flock(hold.descriptor(), kind | LOCK_NB) != 0 &&
      errno == EWOULDBLOCK)
    throw UsageError("another run is writing to '" + folder +
                     "'; allowed: another --out, or when that has ended");
  return hold;
}

// The same number of epochs is the same number of steps, however many workers go on.
std::uint64_t planned_steps(const Settings& settings, const Data& data, const json& before) {
  if (settings.steps == 0 && settings.epochs > 0 && before.value(kEpochs, 0.0) == settings.epochs)
    return before.at(kSteps);
  return steps_of(settings, steps_per_epoch(settings, data));
}

}  // namespace

Run make_run(const Settings& settings, const Data& data, const Output& output,
             const Observer& observer) {
  if (settings.workers < 1 || settings.workers > 256)
    throw UsageError(std::to_string(settings.workers) + " workers; allowed: 1 to 256");
  auto from = earlier(output);
  const json before = from ? json::parse(from->settings) : json::object();
  const std::uint64_t steps = planned_steps(settings, data, before);
  check_settings(settings, data, steps);
  check_records(output, steps);
  const json as_json = settings_to_json(settings, data, steps);
  if (from) require_same(before, as_json, output.folder);
  const std::size_t workers_before = from ? from->own.size() : settings.workers;
  if (workers_before != settings.workers) from = regroup(*from, settings.recipe, settings.workers);
  const std::uint64_t times = std::max<std::uint64_t>(1, settings.evaluations);
  const std::uint64_t every =
      settings.evaluate_every > 0 ? settings.evaluate_every : (steps + times - 1) / times;
  return {.settings = settings,
          .data = data,
          .output = output,
          .observer = observer,
          .steps = steps,
          .evaluate_every = every,
          .settings_text = as_json.dump(),
          .from = std::move(from),
          .workers_before = workers_before};
}

FolderHold::~FolderHold() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

FolderHold make_folder(const std::string& folder) {
  if (folder.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder))
    throw SystemError("folder '" + folder + "' cannot be made: " +
                      (error ? error.message() : "something else has that name"));
  FolderHold hold = held(folder, LOCK_EX);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(".laconic-") && name.ends_with(".tmp"))
      std::filesystem::remove(entry.path(), error);
  }
  return hold;
}

void require_free(const std::string& folder) {
  if (std::filesystem::is_directory(folder)) held(folder, LOCK_SH);
}

}  // namespace laconic::trainer
