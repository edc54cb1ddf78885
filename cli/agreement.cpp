// Workers as threads; normal models at the start.
#include "cli/agreement.h"

#include <algorithm>
#include <exception>
#include <random>
#include <thread>

#include "laconic/base/errors.h"
#include "laconic/transports/threads.h"

namespace laconic::cli {
namespace {

using Models = std::vector<std::vector<float>>;

// One worker's account, by round; entry 0 is the start.
struct Trace {
  std::vector<double> error;  // |x - mean of all starts|^2
  std::vector<std::uint64_t> payload, traffic, waits;
  std::vector<double> apart;
};

Models starts(std::uint64_t seed, std::size_t workers, std::size_t count) {
  Models models(workers, std::vector<float>(count));
  for (std::size_t rank = 0; rank < workers; ++rank) {
    std::mt19937_64 random(Key(seed).fork(rank).bits(0));
    std::normal_distribution<float> normal;
    std::ranges::generate(models[rank], [&] { return normal(random); });
  }
  return models;
}

std::vector<double> mean_of(const Models& models) {
  std::vector<double> mean(models[0].size());
  for (const auto& model : models)
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] += model[i] / static_cast<double>(models.size());
  return mean;
}

double error_of(std::span<const float> model, std::span<const double> mean) {
  double sum = 0;
  for (std::size_t i = 0; i < model.size(); ++i) {
    const double apart = model[i] - mean[i];
    sum += apart * apart;
  }
  return sum;
}

Trace mix(Mixer& mixer, std::vector<float>& model, std::span<const double> mean,
          std::uint64_t rounds, const std::function<void(std::uint64_t)>& progress) {
  Trace trace{{error_of(model, mean)}, {0}, {0}, {0}, {0}};
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const StepStats stats = mixer.mix(model, {.step = round});
    trace.error.push_back(error_of(model, mean));
    trace.payload.push_back(trace.payload.back() + stats.payload_bytes);
    trace.traffic.push_back(trace.traffic.back() + stats.traffic_bytes);
    trace.waits.push_back(trace.waits.back() + stats.rounds);
    trace.apart.push_back(mixer.apart());
    if (progress) progress(round + 1);
  }
  return trace;
}

// The error of a worker that failed by itself counts more than those of workers that waited for it.
void rethrow(const std::vector<std::exception_ptr>& errors) {
  std::exception_ptr waited;
  for (const auto& error : errors) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const TransportError&) {
      waited = error;
    }
  }
  if (waited) std::rethrow_exception(waited);
}

std::vector<AgreementRow> rows_of(const std::vector<Trace>& traces) {
  const auto workers = static_cast<double>(traces.size());
  double start = 0;
  for (const Trace& trace : traces) start += trace.error[0];
  std::vector<AgreementRow> rows(traces[0].error.size());
  for (std::size_t round = 0; round < rows.size(); ++round) {
    AgreementRow& row = rows[round];
    row = {.round = round, .error = 0};
    for (const Trace& trace : traces) {
      row.error += trace.error[round] / start;
      row.payload += static_cast<double>(trace.payload[round]) / workers;
      row.traffic += static_cast<double>(trace.traffic[round]) / workers;
      row.waits += static_cast<double>(trace.waits[round]) / workers;
      row.apart = std::max(row.apart, trace.apart[round]);
    }
  }
  return rows;
}

}  // namespace

std::vector<AgreementRow> agree(const Agreement& run,
                                const std::function<void(std::uint64_t)>& progress) {
  auto ends = make_thread_transports(run.graph.size());
  std::vector<std::unique_ptr<Mixer>> mixers;
  for (const auto& end : ends)
    mixers.push_back(make_mixer(run.mixer, {.transport = *end,
                                            .model = run.model,
                                            .graph = run.graph,
                                            .plan = run.plan,
                                            .seed = run.seed,
                                            .timeout_seconds = run.timeout_seconds}));
  Models models = starts(run.seed, ends.size(), count_of(run.model));
  const auto mean = mean_of(models);
  std::vector<Trace> traces(ends.size());
  std::vector<std::exception_ptr> errors(ends.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < ends.size(); ++rank)
      threads.emplace_back([&, rank] {
        try {
          traces[rank] =
              mix(*mixers[rank], models[rank], mean, run.rounds, rank == 0 ? progress : nullptr);
        } catch (...) {
          errors[rank] = std::current_exception();
        }
        ends[rank].reset();  // tells the others that this rank has left
      });
  }
  rethrow(errors);
  return rows_of(traces);
}

}  // namespace laconic::cli
