// Options of a training run.
#include "cli/trainer/options.h"

#include <time.h>

#include <csignal>
#include <cstdio>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "laconic/trainer/schedule.h"

namespace laconic::cli {
namespace {

constexpr std::int64_t kOnce = 500;  // milliseconds

std::atomic<bool> stop = false;
std::atomic<int> stopped_by = SIGINT;  // also where another rank has heard it
std::atomic<std::int64_t> stopped_at = 0;

std::int64_t milliseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{1000} * now.tv_sec + now.tv_nsec / 1'000'000;
}

// timeout(1) and batch systems send a signal to the process and then to its group: what comes at
// once is the same wish.
extern "C" void on_signal(int signal) {
  if (!stop) {
    stopped_at = milliseconds();
    stopped_by = signal;
    stop = true;
  } else if (milliseconds() - stopped_at > kOnce) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

}  // namespace

SettingsFor add_training_options(CLI::App& app, std::string& data, trainer::Settings& s) {
  app.add_option("--data", data, "fashion-mnist, or a folder with the four IDX files")
      ->capture_default_str();
  app.add_option("--model", s.model, "lenet5 or perceptron")->capture_default_str();
  const auto* workers =
      app.add_option("--workers", s.workers, "Ranks, as threads; recipes may bring their own")
          ->capture_default_str();
  const auto* batch =
      app.add_option("--batch", s.batch, "Images per worker and step; recipes may bring their own")
          ->capture_default_str();
  app.add_option("--epochs", s.epochs, "Passes over the training images")->capture_default_str();
  app.add_option("--steps", s.steps, "Steps, instead of epochs")
      ->check(CLI::Range(std::uint64_t{1}, trainer::kMostSteps));
  const auto* lr = app.add_option("--lr", s.lr, "Learning rate; recipes may bring their own")
                       ->capture_default_str();
  app.add_option("--warmup", s.warmup, "Steps of linear warm-up")->capture_default_str();
  const auto* decay = app.add_option("--decay", s.decay,
                                     "constant, linear or cosine, down to the last step; recipes "
                                     "may bring their own")
                          ->capture_default_str();
  const auto* optimizer =
      app.add_option("--optimizer", s.optimizer.kind, "sgd or adamw; recipes may bring their own")
          ->capture_default_str();
  const auto* momentum =
      app.add_option("--momentum", s.optimizer.momentum, "Of sgd; recipes may bring their own")
          ->capture_default_str();
  app.add_flag("--nesterov", s.optimizer.nesterov, "Nesterov's momentum");
  app.add_option("--weight-decay", s.optimizer.weight_decay, "Weight decay")->capture_default_str();
  app.add_option_function<std::string>(
      "--split", [&s](const std::string& text) { s.split = trainer::Split::parse(text); },
      "reshuffled (images are dealt anew every epoch), sharded (each worker keeps its share), "
      "classes:2 or dirichlet:0.1 (by label)");
  app.add_option("--validation", s.validation,
                 "So many of the training images stand for the test images, which nobody sees");
  app.add_option("--evaluate-every", s.evaluate_every,
                 "Steps between evaluations; 0: a few in all");
  app.add_option("--bucket-bytes", s.bucket_bytes,
                 "Gradient that is averaged together while the rest is computed; 0: all at the end")
      ->capture_default_str();
  app.add_option("--timeout", s.timeout_seconds, "Seconds after which a silent rank is an error")
      ->capture_default_str();
  return [&s, workers, batch, lr, decay, optimizer, momentum](const Recipe& recipe) {
    trainer::Settings settings = s;
    settings.recipe = recipe;
    const Tuning& tuned = recipe.training;
    if (tuned.workers > 0 && workers->empty()) settings.workers = tuned.workers;
    if (tuned.batch > 0 && batch->empty()) settings.batch = tuned.batch;
    if (!optimizer->empty()) return settings;  // rates of one optimiser say nothing of another
    if (!tuned.optimizer.empty()) settings.optimizer.kind = tuned.optimizer;
    if (tuned.lr && lr->empty()) settings.lr = static_cast<float>(*tuned.lr);
    if (!tuned.decay.empty() && decay->empty()) settings.decay = tuned.decay;
    if (tuned.momentum && momentum->empty())
      settings.optimizer.momentum = static_cast<float>(*tuned.momentum);
    return settings;
  };
}

const std::atomic<bool>& interrupted() {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, on_signal);
  return stop;
}

void end_interrupted() {
  std::fflush(stdout);
  throw Stopped{stopped_by};
}

}  // namespace laconic::cli
