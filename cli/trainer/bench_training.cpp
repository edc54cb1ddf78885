// laconic bench training: steps of real training by several recipes, which take turns.
//
// Every variant has a replica of its own on every rank. A turn is a few steps of one variant
// between two meetings of all ranks, a round a turn of each, so that a machine or a link that
// changes does so for all of them. `alone` computes gradients and updates and never speaks: what no
// recipe can beat. `barrier` does the same and waits for the others in every step: what it takes to
// go in step, whatever is sent.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/text.h"
#include "cli/trainer/options.h"
#include "cli/trainer/processes.h"
#include "cli/trainer/summaries.h"
#include "laconic/base/errors.h"
#include "laconic/trainer/crew.h"
#include "laconic/trainer/descent.h"
#include "laconic/trainer/group.h"
#include "laconic/trainer/replica.h"
#include "laconic/transports/threads.h"

namespace laconic::cli {
namespace {

constexpr const char *kAlone = "alone", *kBarrier = "barrier";
const std::vector<std::string> kVariants = {
    kAlone, "dense", "op=half:bf16 exchange=sharded", "natural-sharded", "grid", "topk-natural"};

struct Options {
  std::string data = "fashion-mnist", transport = "threads";
  std::vector<std::string> variants;
  std::uint64_t rounds = 5, steps = 10, warm = 3;
  double seconds = 0;
  trainer::Settings settings;
  SettingsFor settings_for;
  bool json = false;
};

// "RECIPE", "op=natural exchange=sharded", both together, and guard=on.
struct Variant {
  std::string text;
  bool alone = false, barrier = false;
  Recipe recipe;
  GuardOptions guard = {};
};

Variant read_variant(const std::string& text) {
  static const std::map<std::string, std::string Recipe::*> kParts = {
      {"op", &Recipe::op},         {"memory", &Recipe::memory},
      {"layout", &Recipe::layout}, {"exchange", &Recipe::exchange},
      {"down", &Recipe::down},     {"down-memory", &Recipe::down_memory}};
  Variant variant{.text = text,
                  .alone = text == kAlone || text == kBarrier,
                  .barrier = text == kBarrier,
                  .recipe = {.name = text}};
  if (variant.alone) return variant;
  std::istringstream words(text);
  bool first = true;
  for (std::string word; words >> word; first = false) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    if (equals == std::string::npos && first)
      variant.recipe = find_recipe(word);
    else if (equals != std::string::npos && key == "guard")
      variant.guard = GuardOptions::parse(word.substr(equals + 1));
    else if (const auto part = kParts.find(key);
             equals != std::string::npos && part != kParts.end())
      variant.recipe.*part->second = word.substr(equals + 1);
    else
      throw UsageError("no variant '" + text + "': '" + word +
                       "' is not known; allowed: alone, barrier, or a recipe and then op=, "
                       "memory=, layout=, exchange=, down=, down-memory= or guard=");
  }
  if (first) throw UsageError("a variant without a word; allowed: alone, barrier, or a recipe");
  check_recipe(variant.recipe);
  return variant;
}

// What a turn was, on rank 0; seconds are those of the slowest rank.
struct Turn {
  std::uint64_t round = 0, variant = 0, steps = 0;
  double seconds = 0, exposed = 0, kernels = 0, guard = 0;
  std::uint64_t bytes = 0;
  std::vector<double> step_seconds = {};
  std::vector<std::string> lanes = {};  // of each step
  std::vector<std::string> decisions = {};
};

// One variant on one rank.
class Contestant {
 public:
  Contestant(const Variant& variant, const trainer::Settings& settings, const trainer::Data& data,
             Transport& transport, trainer::Group& group)
      : settings_(settings),
        data_(data),
        transport_(transport),
        together_(variant.barrier ? &group : nullptr),
        rank_(static_cast<std::size_t>(transport.rank())),
        replica_(settings.model, data, settings.seed),
        batches_(data.train.count(), settings.workers, settings.batch, settings.split,
                 settings.seed) {
    if (variant.alone) {
      optimizer_ = trainer::make_optimizer(settings.optimizer, replica_.model());
      return;
    }
    descent_ = std::make_unique<trainer::Descent>(
        Agreement{.model = replica_.model(),
                  .recipe = variant.recipe,
                  .seed = settings.seed,
                  .timeout_seconds = settings.timeout_seconds,
                  .threads = settings.threads,
                  .guard = variant.guard},
        settings.optimizer, settings.bucket_bytes, replica_.parameters(), transport);
  }

  void steps(std::uint64_t count, Turn& turn) {
    for (std::uint64_t i = 0; i < count; ++i) {
      Stopwatch watch;
      const StepStats stats = one_step();
      turn.step_seconds.push_back(watch.lap());
      turn.exposed += stats.exposed_seconds;
      turn.kernels += stats.compress_seconds + stats.decompress_seconds;
      turn.guard += stats.guard_seconds;
      turn.bytes += stats.traffic_bytes;
      turn.lanes.emplace_back(lane_name(static_cast<std::size_t>(stats.lane)));
    }
    if (descent_) turn.decisions = descent_->take_guard_record();
  }

  std::span<const float> parameters() { return replica_.parameters(); }

 private:
  StepStats one_step() {
    const auto images = batches_.at(step_, rank_);
    const StepInfo info{.step = step_++, .lr = settings_.lr};
    if (!descent_) {
      StepStats stats;
      replica_.learn(data_.train, images);
      if (together_) {
        const TrafficMeter meter(transport_);
        const Timed timed(stats.exposed_seconds);
        together_->any(false, "all_gather in a step");
        meter.into(stats);
      }
      optimizer_->update(replica_.parameters(), replica_.gradient(), info.lr);
      return stats;
    }
    descent_->begin(replica_.parameters(), replica_.gradient(), info);
    trainer::Replica::Ready ready;
    if (settings_.bucket_bytes > 0) ready = [this](std::size_t tensor) { descent_->ready(tensor); };
    replica_.learn(data_.train, images, ready);
    return descent_->end();
  }

  trainer::Settings settings_;
  const trainer::Data& data_;
  Transport& transport_;
  trainer::Group* together_;  // of one that only goes in step
  std::size_t rank_;
  trainer::Replica replica_;
  trainer::Batches batches_;
  std::unique_ptr<trainer::Optimizer> optimizer_;  // of one that is alone
  std::unique_ptr<trainer::Descent> descent_;
  std::uint64_t step_ = 0;
};

double middle(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

class Bench {
 public:
  Bench(const Options& options, const std::vector<Variant>& variants, const trainer::Data& data)
      : options_(options), variants_(variants), data_(data) {}

  void run(Transport& transport) {
    trainer::use_one_core();
    trainer::Group group(transport, options_.settings.timeout_seconds);
    std::vector<std::unique_ptr<Contestant>> all;
    for (const Variant& variant : variants_) {
      trainer::Settings settings = options_.settings_for(variant.recipe);
      settings.workers = static_cast<std::size_t>(transport.size());
      settings.batch = options_.settings.batch;
      all.push_back(std::make_unique<Contestant>(variant, settings, data_, transport, group));
      Turn unseen;
      all.back()->steps(options_.warm, unseen);
    }
    Stopwatch watch;
    double spent = 0;
    for (std::uint64_t round = 0; round < options_.rounds; ++round) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        Turn turn = take_turn(*all[i], group);
        turn.round = round;
        turn.variant = i;
        if (group.rank() == 0) note(std::move(turn));
      }
      spent += watch.lap();
      // The same on all ranks: rank 0's clock counts.
      const bool enough = options_.seconds > 0 &&
                          spent * (1 + 1 / static_cast<double>(round + 1)) > options_.seconds;
      if (group.any(group.rank() == 0 && enough, "all_gather of clocks")) break;
    }
    if (group.rank() == 0) ranks_ = group.size();
  }

  void print() const {
    show_progress("");
    if (options_.json) return;
    fmt::print("{} ranks x {} images, {} rounds of {} steps, transport {}\n\n", ranks_,
               options_.settings.batch, turns_.size() / variants_.size(), options_.steps,
               options_.transport);
    fmt::print("{:<32} {:>9} {:>11} {:>11} {:>13} {:>9} {:>7}\n", "variant", "ms/step",
               "exposed ms", "samples/s", "bytes/step", "/ first", "guard");
    for (std::size_t i = 0; i < variants_.size(); ++i) print_row(i);
  }

 private:
  Turn take_turn(Contestant& contestant, trainer::Group& group) const {
    Turn turn{.steps = options_.steps};
    group.any(false, "all_gather before a turn");
    Stopwatch watch;
    contestant.steps(options_.steps, turn);
    turn.seconds = watch.lap();
    for (const auto& of_rank : group.gather(std::array{turn.seconds}, "all_gather of times"))
      turn.seconds = std::max(turn.seconds, of_rank[0]);
    return turn;
  }

  void note(Turn turn) {
    if (options_.json) {
      Json line = {{"variant", variants_[turn.variant].text},
                   {"round", turn.round},
                   {"steps", turn.steps},
                   {"seconds", turn.seconds},
                   {"exposed_seconds", turn.exposed},
                   {"kernel_seconds", turn.kernels},
                   {"guard_seconds", turn.guard},
                   {"bytes", turn.bytes},
                   {"step_seconds", turn.step_seconds},
                   {"lanes", turn.lanes},
                   {"decisions", turn.decisions}};
      fmt::print("{}\n", line.dump());
      std::fflush(stdout);
    } else {
      show_progress(fmt::format("round {} of {}: {}", turn.round + 1, options_.rounds,
                                variants_[turn.variant].text));
    }
    turns_.push_back(std::move(turn));
  }

  std::vector<double> of(std::size_t variant, double (*value)(const Turn&)) const {
    std::vector<double> values;
    for (const Turn& turn : turns_)
      if (turn.variant == variant) values.push_back(value(turn) / static_cast<double>(turn.steps));
    return values;
  }

  void print_row(std::size_t i) const {
    const auto seconds = of(i, [](const Turn& turn) { return turn.seconds; });
    const auto first = of(0, [](const Turn& turn) { return turn.seconds; });
    std::vector<double> ratios;
    for (std::size_t round = 0; round < seconds.size(); ++round)
      ratios.push_back(first[round] / seconds[round]);
    const double images = static_cast<double>(ranks_ * options_.settings.batch);
    double all = 0, guard = 0;
    for (const Turn& turn : turns_)
      if (turn.variant == i) {
        all += turn.seconds;
        guard += turn.guard;
      }
    fmt::print(
        "{:<32} {:>9.1f} {:>11.1f} {:>11.0f} {:>13} {:>9.3f}{}\n", shortened(variants_[i].text, 32),
        1e3 * middle(seconds), 1e3 * middle(of(i, [](const Turn& turn) { return turn.exposed; })),
        images / middle(seconds),
        with_commas(static_cast<std::uint64_t>(
            middle(of(i, [](const Turn& turn) { return static_cast<double>(turn.bytes); })))),
        middle(ratios), guard > 0 ? fmt::format(" {:>5.2f} %", 100 * guard / all) : "");
  }

  const Options& options_;
  const std::vector<Variant>& variants_;
  const trainer::Data& data_;
  std::vector<Turn> turns_;  // on rank 0
  std::size_t ranks_ = 0;
};

// What there is to time, once all has been found to be right.
struct Prepared {
  std::vector<Variant> variants;
  trainer::Data data;
};

Prepared prepare(const Options& options) {
  if (options.rounds < 1 || options.steps < 1)
    throw UsageError("--rounds and --steps must be at least 1");
  if (!(options.seconds >= 0))
    throw UsageError(fmt::format("--seconds {}; allowed: 0 and more", options.seconds));
  Prepared prepared;
  for (const std::string& text : options.variants.empty() ? kVariants : options.variants)
    prepared.variants.push_back(read_variant(text));
  prepared.data = trainer::load_data(options.data);
  return prepared;
}

void run_on(const Options& options, const Prepared& prepared, Transport* transport) {
  Bench bench(options, prepared.variants, prepared.data);
  if (transport)
    bench.run(*transport);
  else
    trainer::run_crew(make_thread_transports(static_cast<int>(options.settings.workers)),
                      [&](Transport& end) { bench.run(end); });
  if (!transport || transport->rank() == 0) bench.print();
}

void run(const Options& options) {
  Prepared prepared;
  on_transport(
      options.transport, options.settings.timeout_seconds,
      [&](const Transport*) { prepared = prepare(options); },
      [&](Transport* transport) { run_on(options, prepared, transport); });
}

const RegisterCommand heading{{.name = "bench", .summary = "Measures speed on this machine."}};
const RegisterCommand command{{
    .name = "bench training",
    .summary = kBenchTrainingSummary,
    .examples =
        {"laconic bench training --batch 64 --variant alone --variant dense --variant natural",
         "laconic bench training --variant dense --variant 'natural exchange=sharded guard=on'",
         "bench/hosts.py --rate 100mbit -- laconic bench training --transport sockets"},
    .attach =
        [](CLI::App& app) {
          const auto o = std::make_shared<Options>();
          app.add_option("--variant", o->variants,
                         "What takes turns; the first is what others are compared with: alone, "
                         "barrier (alone, but in step), or a recipe and then op=, memory=, "
                         "layout=, exchange=, down=, down-memory= or guard=");
          app.add_option("--rounds", o->rounds, "Turns of each")->capture_default_str();
          o->settings_for = add_training_options(app, o->data, o->settings);
          app.remove_option(app.get_option("--steps"));
          app.remove_option(app.get_option("--epochs"));
          app.remove_option(app.get_option("--evaluate-every"));
          app.add_option("--steps", o->steps, "Steps of a turn")->capture_default_str();
          app.add_option("--warm", o->warm, "Steps of each before the first round")
              ->capture_default_str();
          app.add_option("--seconds", o->seconds,
                         "No round begins that would not end in this time; 0: no limit")
              ->capture_default_str();
          app.add_option("--transport", o->transport, transport_help())->capture_default_str();
          app.add_flag("--json", o->json, "Print each turn as a line of JSON");
          return [o](const Globals& globals) {
            o->settings.threads = globals.threads;
            run(*o);
          };
        },
}};

}  // namespace
}  // namespace laconic::cli
