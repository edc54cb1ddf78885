// Steps of the engine that are timed. Ranks are threads; what counts is what a rank says it has
// computed.
#include "laconic/planner/costs.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <thread>

#include "laconic/base/errors.h"
#include "laconic/exchange/sums.h"
#include "laconic/transports/threads.h"

namespace laconic {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The first tensors of a model, and as many rows of the next as there is room for.
struct Excerpt {
  Model model;
  std::vector<float> values;
};

Excerpt excerpt_of(const Samples& samples, std::size_t room) {
  Excerpt excerpt;
  std::size_t offset = 0;
  for (Tensor tensor : samples.model) {
    const std::size_t count = tensor.count();
    if (count == 0) continue;
    if (count > room) {
      const std::size_t row = count / tensor.shape[0];
      tensor.shape[0] = std::max<std::size_t>(1, room / row);
      if (row > room && !excerpt.model.empty()) break;
    }
    const auto from = samples.gradients[0].begin() + static_cast<std::ptrdiff_t>(offset);
    excerpt.values.insert(excerpt.values.end(), from,
                          from + static_cast<std::ptrdiff_t>(tensor.count()));
    offset += count;
    room -= std::min(room, tensor.count());
    excerpt.model.push_back(std::move(tensor));
    if (room == 0) break;
  }
  return excerpt;
}

bool has_own_form(const Recipe& recipe) {
  const auto name = recipe.exchange.substr(0, recipe.exchange.find(':'));
  const auto at = std::ranges::find(exchanges(), name, &ExchangeInfo::name);
  return at != exchanges().end() && at->own_form;
}

// A tensor of an excerpt may have fewer rows than the rank that it has a rule for.
Plan plan_of(const Recipe& recipe, const Model& model) {
  Plan plan = make_plan(recipe, model);
  for (Slice& slice : plan.layout) slice.rank = std::min({slice.rank, slice.rows, slice.cols});
  return plan;
}

std::unique_ptr<Aggregator> make(const Recipe& recipe, const std::string& exchange,
                                 const Model& model, Transport& transport) {
  const bool way_back = exchange == recipe.exchange;
  Recipe back = recipe;
  back.op = recipe.down;
  return make_aggregator(
      exchange, {.transport = transport,
                 .model = model,
                 .plan = plan_of(recipe, model),
                 .memory = recipe.memory,
                 .down = way_back && !recipe.down.empty() ? std::optional(make_plan(back, model))
                                                          : std::nullopt,
                 .down_memory = way_back ? recipe.down_memory : "none",
                 .seed = 1,
                 .strata = recipe.draws == "strata",
                 .zeros_rest = !takes_local_steps(recipe)});
}

// Runs one function per rank; throws what the first of them threw.
template <class Body>
void on_ranks(int ranks, Body body) {
  auto ends = make_thread_transports(ranks);
  std::vector<std::exception_ptr> errors(ends.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ends.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(*ends[rank]);
      } catch (...) {
        errors[rank] = std::current_exception();
        ends[rank].reset();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

struct Seconds {
  double encode = kNever, decode = kNever;
};

// Of rank 0. The first two steps are not timed: memory is taken then.
Seconds time_steps(const Recipe& recipe, const std::string& exchange, const Excerpt& excerpt,
                   int ranks, unsigned repeats) {
  Seconds best;
  on_ranks(ranks, [&](Transport& transport) {
    const auto aggregator = make(recipe, exchange, excerpt.model, transport);
    const std::vector<float> parameters(excerpt.values.size());
    std::vector<float> momentum(excerpt.values.size());
    std::vector<float> gradient(excerpt.values.size());
    for (unsigned step = 0; step < repeats + 2; ++step) {
      std::ranges::copy(excerpt.values, gradient.begin());
      const StepStats stats = aggregator->average(gradient, {.step = kForeseenStep + step,
                                                             .lr = 0.1F,
                                                             .parameters = parameters,
                                                             .momentum = momentum});
      if (step < 2 || transport.rank() > 0) continue;
      best.encode = std::min(best.encode, stats.compress_seconds);
      best.decode = std::min(best.decode, stats.decompress_seconds);
    }
  });
  return best;
}

// What one of two ranks sent to the other under a leg.
void deliver(const Transfer& from, Transfer& to) {
  for (std::size_t i = 0; i < from.sends.size(); ++i)
    std::ranges::copy(from.sends[i].bytes, to.receives[i].bytes.begin());
}

// A sum over two ranks, by hand: both do the same, so half is one rank's.
double time_sum(std::vector<float> values, unsigned repeats) {
  double best = kNever;
  std::vector<float> others = values;
  Sum sums[2];
  Transfer transfers[2];
  for (unsigned i = 0; i < repeats + 1; ++i) {
    double seconds = 0;
    sums[0].begin(values, 0, 2);
    sums[1].begin(others, 1, 2);
    for (bool more = true; more;) {
      Stopwatch watch;
      more = sums[0].next(transfers[0]);
      more = sums[1].next(transfers[1]) && more;
      seconds += watch.lap();
      if (!more) continue;
      deliver(transfers[0], transfers[1]);
      deliver(transfers[1], transfers[0]);
    }
    if (i > 0) best = std::min(best, seconds / 2);
  }
  return best / static_cast<double>(values.size());
}

}  // namespace

Rates measure_rates(const Recipe& recipe, const Samples& samples, unsigned repeats) {
  const Excerpt excerpt = excerpt_of(samples, kTimedEntries);
  const auto entries = static_cast<double>(excerpt.values.size());
  const std::string exchange = has_own_form(recipe) ? recipe.exchange : "gather";
  const Seconds one = time_steps(recipe, exchange, excerpt, 1, repeats);
  Rates rates{.encode = one.encode / entries,
              .sum = time_sum(excerpt.values, std::max(repeats, 2U))};
  if (exchange != "gather") {
    rates.add = one.decode / entries;
    return rates;
  }
  const Seconds two = time_steps(recipe, exchange, excerpt, 2, repeats);
  rates.add = std::clamp(two.decode - one.decode, 0.0, one.decode) / entries;
  rates.write = one.decode / entries - rates.add;
  return rates;
}

double measure_error(const Recipe& recipe, const Samples& samples) {
  double sum = 0;
  for (const std::vector<float>& x : samples.gradients) {
    double lost = 0, all = 0;
    on_ranks(1, [&](Transport& transport) {
      const auto aggregator = make(recipe, recipe.exchange, samples.model, transport);
      const std::vector<float> parameters(x.size());
      std::vector<float> momentum(x.size()), mean = x;
      aggregator->average(
          mean,
          {.step = kForeseenStep, .lr = 0.1F, .parameters = parameters, .momentum = momentum});
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double difference = static_cast<double>(mean[i]) - x[i];
        lost += difference * difference;
        all += static_cast<double>(x[i]) * x[i];
      }
    });
    sum += lost / all;
  }
  return sum / static_cast<double>(samples.gradients.size());
}

GossipCosts measure_gossip(const Recipe& recipe, const Samples& samples, unsigned repeats) {
  const Excerpt excerpt = excerpt_of(samples, kTimedEntries);
  GossipCosts costs{.encode = kNever, .decode = kNever};
  on_ranks(3, [&](Transport& transport) {
    const auto mixer = make_mixer(recipe.mixer, {.transport = transport,
                                                 .model = excerpt.model,
                                                 .graph = make_graph("ring:3"),
                                                 .plan = make_plan(recipe, excerpt.model),
                                                 .seed = 1});
    std::vector<float> model = excerpt.values;
    for (float& value : model) value *= static_cast<float>(1 + transport.rank());
    for (unsigned i = 0; i < repeats + 1; ++i) {
      const StepStats stats =
          mixer->mix(model, {.step = kForeseenStep + i, .lr = 0.1F, .parameters = model});
      if (transport.rank() > 0 || i == 0) continue;
      costs.encode = std::min(costs.encode, stats.compress_seconds);
      costs.decode = std::min(costs.decode, stats.decompress_seconds);
      costs.bytes = static_cast<double>(stats.traffic_bytes);
      costs.messages = static_cast<double>(stats.messages);
      costs.rounds = static_cast<double>(stats.rounds);
    }
  });
  const double all =
      static_cast<double>(count_of(samples.model)) / static_cast<double>(excerpt.values.size());
  costs.encode *= all;
  costs.decode *= all;
  costs.bytes *= all;
  return costs;
}

}  // namespace laconic
