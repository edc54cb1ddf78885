// The C ABI: transports of the caller's, ranks as threads, aggregators.
#include <stdexcept>

#include "laconic/c_guard.h"

using namespace laconic;
using namespace laconic::c;

struct laconic_thread_group {
  std::vector<std::unique_ptr<Transport>> ends;  // by rank; none: the rank has left
};

struct laconic_aggregator {
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Aggregator> aggregator;
};

namespace {

// 0 may stand for a default, or be what is left of one.
double need_timeout(double seconds) { return seconds == 0 ? 0 : Deadline::in(seconds, "").seconds; }

// The one attempt of a thread group, in which all messages of two ranks arrive in order.
constexpr std::uint64_t kAttempt = 0;

int thread_exchange(void* self, const laconic_send* sends, size_t send_count,
                    const laconic_receive* receives, size_t receive_count, double timeout_seconds,
                    const char* operation) {
  return guard([&] {
    std::vector<Send> out;
    for (const laconic_send& send : array(sends, send_count, "sends"))
      out.push_back({send.to, view(send.bytes, send.size)});
    std::vector<Receive> in;
    for (const laconic_receive& receive : array(receives, receive_count, "receives"))
      in.push_back(Receive::exactly(
          receive.from, array(static_cast<std::uint8_t*>(receive.bytes), receive.size, "bytes")));
    Transport& end = need(static_cast<Transport*>(self), "self");
    const double seconds = need_timeout(timeout_seconds);
    const auto deadline = Deadline::in(seconds > 0 ? seconds : 1e-9, &need(operation, "operation"));
    Transfer transfer;
    transfer.operation = deadline.operation;
    transfer.sends = std::move(out);
    transfer.receives = std::move(in);
    if (transfer.sends.empty() && transfer.receives.empty()) return;
    end.start({.attempt = kAttempt}, transfer);
    end.wait(transfer, deadline);
  });
}

// Calls a transport of the caller's. Its arrays are kept between steps.
class Host {
 public:
  explicit Host(const laconic_transport& transport) : transport_(transport) {}

  void exchange(std::span<const Send> sends, std::span<const Receive> receives,
                const Deadline& deadline) {
    if (sends.empty() && receives.empty()) return;  // a single rank needs no callback
    sends_.clear();
    for (const Send& send : sends)
      sends_.push_back({send.to, send.bytes.data(), send.bytes.size()});
    receives_.clear();
    for (const Receive& receive : receives)
      receives_.push_back({receive.from, receive.bytes.data(), receive.bytes.size()});
    call("exchange", deadline, [&](double seconds, const char* operation) {
      return transport_.exchange(transport_.self, sends_.data(), sends_.size(), receives_.data(),
                                 receives_.size(), seconds, operation);
    });
  }

  void all_reduce(std::span<float> values, const Deadline& deadline) {
    call("all_reduce_float", deadline, [&](double seconds, const char* operation) {
      return transport_.all_reduce_float(transport_.self, values.data(), values.size(), seconds,
                                         operation);
    });
  }

 private:
  template <class Callback>
  void call(const char* name, const Deadline& deadline, Callback callback) {
    operation_ = deadline.operation;
    last_error().fresh = false;
    const std::chrono::duration<double> left = deadline.at - std::chrono::steady_clock::now();
    const int code = callback(std::max(left.count(), 0.0), operation_.c_str());
    if (code == 0) return;
    // A thread group's sentence names rank and operation already; the caller's gets them added.
    if (transport_.exchange == thread_exchange) throw TransportError(last_error().text);
    if (last_error().fresh) throw std::runtime_error(last_error().text);
    throw std::runtime_error("callback '" + std::string(name) + "' returned " +
                             std::to_string(code) + " and left no error");
  }

  laconic_transport transport_;
  std::vector<laconic_send> sends_;
  std::vector<laconic_receive> receives_;
  std::string operation_;
};

std::unique_ptr<Transport> transport_of(const laconic_transport& transport) {
  const auto host = std::make_shared<Host>(transport);
  Callbacks callbacks;
  callbacks.rank = transport.rank;
  callbacks.size = transport.size;
  if (transport.exchange || transport.size == 1)
    callbacks.exchange = [host](auto sends, auto receives, const Deadline& deadline) {
      host->exchange(sends, receives, deadline);
    };
  if (transport.all_reduce_float)
    callbacks.all_reduce = [host](std::span<float> values, const Deadline& deadline) {
      host->all_reduce(values, deadline);
    };
  return make_callback_transport(std::move(callbacks));
}

std::unique_ptr<Transport>& end_of(laconic_thread_group* group, int rank) {
  auto& ends = need(group, "group").ends;
  if (rank < 0 || static_cast<std::size_t>(rank) >= ends.size())
    throw UsageError("rank " + std::to_string(rank) + " of " + std::to_string(ends.size()));
  auto& end = ends[static_cast<std::size_t>(rank)];
  if (!end) throw UsageError("rank " + std::to_string(rank) + " has left its group");
  return end;
}

std::string indexed(const char* name, std::size_t i) {
  return std::string(name) + "[" + std::to_string(i) + "]";
}

Model model_of(const laconic_options& options) {
  Model model;
  need(options.tensors, "options->tensors");
  if (options.tensor_count == 0) throw UsageError("argument 'options->tensors' is empty");
  for (const laconic_tensor& from :
       array(options.tensors, options.tensor_count, "options->tensors")) {
    const std::string at = indexed("options->tensors", model.size());
    model.push_back(
        {&need(from.name, at + ".name"), shape_of(from.shape, from.ndim, at + ".shape")});
  }
  std::uint64_t count = 0;
  for (const Tensor& tensor : model) count = need_count(count + tensor.count());
  return model;
}

Plan plan_of(const laconic_options& options, const Model& model) {
  const Operator op = parse_operator(&need(options.op, "options->op"));
  std::vector<Rule> rules;
  for (const char* rule : array(options.rules, options.rule_count, "options->rules"))
    rules.push_back(parse_rule(&need(rule, indexed("options->rules", rules.size()))));
  return make_plan(model, options.layout ? options.layout : "tensor", op, rules);
}

laconic_aggregator aggregator_of(const laconic_transport& host, const laconic_options& options) {
  auto transport = transport_of(host);
  const Model model = model_of(options);
  const Plan plan = plan_of(options, model);
  const double timeout = need_timeout(options.timeout_seconds);
  auto aggregator = make_aggregator(options.exchange ? options.exchange : "gather",
                                    {.transport = *transport,
                                     .model = model,
                                     .plan = plan,
                                     .memory = options.memory ? options.memory : "none",
                                     .seed = options.seed,
                                     .timeout_seconds = timeout > 0 ? timeout : 60,
                                     .threads = options.threads > 0 ? options.threads : 1});
  return {std::move(transport), std::move(aggregator)};
}

laconic_stats stats_of(const StepStats& stats, double residual_norm) {
  return {.struct_size = 0,
          .payload_bytes = stats.payload_bytes,
          .wire_bytes = stats.wire_bytes,
          .traffic_bytes = stats.traffic_bytes,
          .dense_bytes = stats.dense_bytes,
          .compress_seconds = stats.compress_seconds,
          .exchange_seconds = stats.exchange_seconds,
          .decompress_seconds = stats.decompress_seconds,
          .residual_norm = residual_norm,
          .finite = stats.finite};
}

}  // namespace

laconic_status laconic_thread_group_create(int size, laconic_thread_group** group) {
  return create(group, "group", [&] {
    laconic_thread_group made{make_thread_transports(size)};
    for (const auto& end : made.ends) end->open_attempt();
    return made;
  });
}

laconic_status laconic_thread_group_transport(laconic_thread_group* group, int rank,
                                              laconic_transport* transport) {
  return guard([&] {
    Transport& end = *end_of(group, rank);
    write_struct({.struct_size = 0,
                  .self = &end,
                  .rank = end.rank(),
                  .size = end.size(),
                  .exchange = thread_exchange,
                  .all_reduce_float = nullptr},
                 transport, "transport");
  });
}

laconic_status laconic_thread_group_leave(laconic_thread_group* group, int rank) {
  return guard([&] { end_of(group, rank).reset(); });
}

void laconic_thread_group_free(laconic_thread_group* group) { delete group; }

laconic_status laconic_aggregator_create(const laconic_transport* transport,
                                         const laconic_options* options,
                                         laconic_aggregator** aggregator) {
  return create(aggregator, "aggregator", [&] {
    return aggregator_of(read_struct(transport, "transport"), read_struct(options, "options"));
  });
}

void laconic_aggregator_free(laconic_aggregator* aggregator) { delete aggregator; }

laconic_status laconic_average(laconic_aggregator* aggregator, float* gradient, size_t count,
                               const laconic_step* step, laconic_stats* stats) {
  return guard([&] {
    Aggregator& run = *need(aggregator, "aggregator").aggregator;
    const auto values = array(gradient, count, "gradient");
    const laconic_step from = read_struct(step, "step");
    StepInfo info{.step = from.step, .lr = from.lr};
    if (from.parameters) info.parameters = {from.parameters, count};
    if (stats) struct_size(stats, "stats");  // before the step, which cannot be undone
    const StepStats cost = run.average(values, info);
    if (stats) write_struct(stats_of(cost, run.residual_norm()), stats, "stats");
  });
}

laconic_status laconic_aggregator_save(const laconic_aggregator* aggregator, void* buffer,
                                       size_t capacity, size_t* size) {
  return guard([&] {
    const Buffer state = write_state(need(aggregator, "aggregator").aggregator->save());
    need(size, "size") = state.size();
    if (buffer) deliver(state.view(), buffer, capacity, *size);
  });
}

laconic_status laconic_aggregator_load(laconic_aggregator* aggregator, const void* bytes,
                                       size_t size) {
  return guard(
      [&] { need(aggregator, "aggregator").aggregator->load(read_state(view(bytes, size))); });
}
