// The C ABI: steps, part by part where gradients are averaged, around an update elsewhere.
#include <cmath>

#include "laconic/c_method.h"

using namespace laconic;
using namespace laconic::c;

namespace {

static_assert(LACONIC_NONE == static_cast<int>(Outcome::none));
static_assert(LACONIC_COMMITTED == static_cast<int>(Outcome::committed));
static_assert(LACONIC_ROLLED_BACK == static_cast<int>(Outcome::rolled_back));
static_assert(LACONIC_IN_DOUBT == static_cast<int>(Outcome::in_doubt));

StepInfo info_of(const laconic_step& from) {
  if (from.scale != 0 && !(from.scale > 0 && std::isfinite(from.scale)))
    throw UsageError("'step->scale' is " + std::to_string(from.scale) +
                     "; allowed: above 0, and 0 for 1");
  return {.step = from.step,
          .lr = from.lr,
          .scale = from.scale == 0 ? 1 : from.scale,
          .flags = from.flags,
          .plain = from.plain != 0};
}

// Of a method that averages gradients: its ranks' optimisers have the same momentum, which none may
// mask by what it alone has sent.
StepInfo averaging_info(const laconic_step& from) {
  if (from.momentum)
    throw UsageError("'step->momentum' is a rank's own; allowed: in laconic_after_update");
  return info_of(from);
}

// Of one that does not: its gradients stay as they are.
StepInfo local_info(const laconic_step& from, const laconic_method& of) {
  StepInfo info = info_of(from);
  if (info.scale != 1) throw UsageError("'step->scale' is for averaged gradients; allowed: 0 or 1");
  if (from.momentum) info.momentum_by_tensor = arrays_of(from.momentum, of, "step->momentum");
  return info;
}

std::vector<const float*> parameters_of(const laconic_step& from, const laconic_method& of) {
  if (!from.parameters) return {};
  const auto arrays = arrays_of(from.parameters, of, "step->parameters");
  return {arrays.begin(), arrays.end()};
}

laconic_stats stats_of(const StepStats& stats) {
  return {.struct_size = 0,
          .payload_bytes = stats.payload_bytes,
          .wire_bytes = stats.wire_bytes,
          .traffic_bytes = stats.traffic_bytes,
          .rounds = stats.rounds,
          .dense_bytes = stats.dense_bytes,
          .up_bytes = stats.up_bytes,
          .down_bytes = stats.down_bytes,
          .vote_bytes = stats.vote_bytes,
          .compress_seconds = stats.compress_seconds,
          .decompress_seconds = stats.decompress_seconds,
          .exchange_seconds = stats.exchange_seconds,
          .exposed_seconds = stats.exposed_seconds,
          .update_seconds = stats.update_seconds,
          .flags = stats.flags,
          .finite = stats.finite,
          .lane = static_cast<int>(stats.lane),
          .advised_lane = static_cast<int>(stats.advised),
          .predicted_gain = stats.predicted_gain,
          .measured_gain = stats.measured_gain};
}

// What a step costs is written after it, but a wrong struct is found before it.
template <class Work>
void with_stats(laconic_stats* stats, Work work) {
  if (stats) struct_size(stats, "stats");
  const StepStats cost = work();
  if (stats) write_struct(stats_of(cost), stats, "stats");
}

Dtype dtype_of(int dtype) {
  if (dtype != LACONIC_FLOAT32 && dtype != LACONIC_FLOAT16 && dtype != LACONIC_BFLOAT16)
    throw UsageError("no part of laconic_dtype " + std::to_string(dtype) +
                     "; allowed: LACONIC_FLOAT32, LACONIC_FLOAT16, LACONIC_BFLOAT16");
  return static_cast<Dtype>(dtype);
}

}  // namespace

laconic_status laconic_begin(laconic_method* method, const laconic_step* step) {
  return guard([&] {
    Aggregator& gradients = need_averaging(method, "laconic_begin");
    const laconic_step from = read_struct(step, "step");
    StepInfo info = averaging_info(from);
    auto parameters = parameters_of(from, *method);
    info.parameters_by_tensor = parameters;
    gradients.begin(info);
    method->begun_with = std::move(parameters);  // its memory stays where the info points to
  });
}

laconic_status laconic_submit(laconic_method* method, const size_t* tensors, void* const* data,
                              const unsigned char* rests, size_t count, int dtype, size_t* part) {
  return guard([&] {
    Aggregator& gradients = need_averaging(method, "laconic_submit");
    const auto numbers = array(tensors, count, "tensors");
    const auto arrays = array(data, count, "data");
    const auto marks = std::make_unique<bool[]>(rests ? count : 0);
    if (rests) std::transform(rests, rests + count, marks.get(), [](auto c) { return c != 0; });
    const std::size_t number = gradients.submit({.tensors = numbers,
                                                 .data = arrays,
                                                 .dtype = dtype_of(dtype),
                                                 .rests = {marks.get(), rests ? count : 0}});
    if (part) *part = number;
  });
}

laconic_status laconic_poll(laconic_method* method, size_t part, int* done) {
  return guard([&] {
    Aggregator& gradients = need_averaging(method, "laconic_poll");
    need(done, "done") = 0;
    *done = gradients.poll(part);
  });
}

laconic_status laconic_wait(laconic_method* method, size_t part, double seconds, int* done) {
  return guard([&] {
    Aggregator& gradients = need_averaging(method, "laconic_wait");
    need(done, "done") = 0;
    *done = gradients.wait(part, seconds);
  });
}

laconic_status laconic_finish(laconic_method* method, laconic_stats* stats) {
  return guard([&] {
    Aggregator& gradients = need_averaging(method, "laconic_finish");
    with_stats(stats, [&] { return gradients.finish(); });
  });
}

laconic_status laconic_commit(laconic_method* method) {
  return guard([&] { need_averaging(method, "laconic_commit").commit(); });
}

laconic_status laconic_rollback(laconic_method* method) {
  return guard([&] { need_averaging(method, "laconic_rollback").rollback(); });
}

laconic_status laconic_abort(laconic_method* method, const char* why) {
  return guard([&] { need_averaging(method, "laconic_abort").abort(&need(why, "why")); });
}

laconic_status laconic_settle(laconic_method* method, laconic_transport* among, int* outcome) {
  return guard([&] {
    Aggregator& gradients = need_averaging(method, "laconic_settle");
    need(outcome, "outcome") = static_cast<int>(gradients.outcome());
    *outcome = static_cast<int>(gradients.settle(*need(among, "among").end));
  });
}

laconic_status laconic_tensor_stats(const laconic_method* method, size_t tensor,
                                    laconic_tensor_cost* cost) {
  return guard([&] {
    const Aggregator& gradients = need_averaging(method, "laconic_tensor_stats");
    struct_size(cost, "cost");
    const TensorStats stats = gradients.tensor_stats(tensor);
    write_struct(laconic_tensor_cost{.struct_size = 0,
                                     .payload_bytes = stats.payload_bytes,
                                     .dense_bytes = stats.dense_bytes,
                                     .rests = stats.rests},
                 cost, "cost");
  });
}

laconic_status laconic_outcome(const laconic_method* method, int* outcome) {
  return guard([&] {
    const Outcome now = need_averaging(method, "laconic_outcome").outcome();
    need(outcome, "outcome") = static_cast<int>(now);
  });
}

laconic_status laconic_average(laconic_method* method, float* gradient, size_t count,
                               const laconic_step* step, laconic_stats* stats) {
  return guard([&] {
    Aggregator& gradients = need_averaging(method, "laconic_average");
    const auto values = array(gradient, count, "gradient");
    const laconic_step from = read_struct(step, "step");
    StepInfo info = averaging_info(from);
    const auto parameters = parameters_of(from, *method);
    info.parameters_by_tensor = parameters;
    with_stats(stats, [&] { return gradients.average(values, info); });
  });
}

laconic_status laconic_before_update(laconic_method* method, float* const* parameters,
                                     float* const* gradients, const laconic_step* step,
                                     laconic_stats* stats) {
  return guard([&] {
    laconic_method& of = need_local(method, "laconic_before_update");
    const auto x = arrays_of(parameters, of, "parameters");
    const auto g = arrays_of(gradients, of, "gradients");
    const StepInfo info = local_info(read_struct(step, "step"), of);
    with_stats(stats, [&] {
      gather(x.data(), of.places, of.parameters);
      gather(g.data(), of.places, of.gradient);
      const StepStats cost = of.method->before_update(of.parameters, of.gradient, info);
      scatter(of.parameters, of.places, x.data());
      scatter(of.gradient, of.places, g.data());
      return cost;
    });
  });
}

// What may end a round: the same arguments, and the model is written back.
template <class Work>
static laconic_status with_parameters(laconic_method* method, const char* verb,
                                      float* const* parameters, const laconic_step* step,
                                      laconic_stats* stats, Work work) {
  return guard([&] {
    laconic_method& of = need_local(method, verb);
    const auto x = arrays_of(parameters, of, "parameters");
    const StepInfo info = local_info(read_struct(step, "step"), of);
    with_stats(stats, [&] {
      gather(x.data(), of.places, of.parameters);
      const StepStats cost = work(*of.method, of.parameters, info);
      scatter(of.parameters, of.places, x.data());
      return cost;
    });
  });
}

laconic_status laconic_after_update(laconic_method* method, float* const* parameters,
                                    const laconic_step* step, laconic_stats* stats) {
  return with_parameters(
      method, "laconic_after_update", parameters, step, stats,
      [](Method& of, auto& x, const StepInfo& info) { return of.after_update(x, info); });
}

laconic_status laconic_finish_round(laconic_method* method, float* const* parameters,
                                    const laconic_step* step, laconic_stats* stats) {
  return with_parameters(
      method, "laconic_finish_round", parameters, step, stats,
      [](Method& of, auto& x, const StepInfo& info) { return of.finish(x, info); });
}
