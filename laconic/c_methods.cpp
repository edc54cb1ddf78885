// The C ABI: methods, and the host's arrays as one.
#include <set>

#include "laconic/c_method.h"

namespace laconic::c {
namespace {

std::string indexed(const char* name, std::size_t i) {
  return std::string(name) + "[" + std::to_string(i) + "]";
}

Model model_of(const laconic_method_options& options) {
  Model model;
  need(options.tensors, "options->tensors");
  if (options.tensor_count == 0) throw UsageError("argument 'options->tensors' is empty");
  std::uint64_t count = 0;
  std::set<std::string_view> names;
  for (const laconic_tensor& from :
       array(options.tensors, options.tensor_count, "options->tensors")) {
    const std::string at = indexed("options->tensors", model.size());
    model.push_back(
        {&need(from.name, at + ".name"), shape_of(from.shape, from.ndim, at + ".shape")});
    count = need_count(count + model.back().count());
    if (!names.insert(from.name).second)
      throw UsageError("'" + at + "' has the name '" + from.name + "' of one before it");
  }
  return model;
}

Engine engine_of(int engine) {
  if (engine == LACONIC_ENGINE_THREAD) return Engine::thread;
  if (engine == LACONIC_ENGINE_CALLERS) return Engine::callers;
  throw UsageError("no engine " + std::to_string(engine) + "; known: 0 and 1");
}

Agreement agreement_of(const Transport& transport, const laconic_method_options& options) {
  Agreement agreement{.model = model_of(options),
                      .recipe = recipe_of(options.recipe, "options->recipe"),
                      .seed = options.seed,
                      .timeout_seconds = need_timeout(options.timeout_seconds),
                      .threads = std::max(options.threads, 1U),
                      .engine = engine_of(options.engine)};
  if (options.unit_bytes > 0) agreement.unit_bytes = options.unit_bytes;
  agreement.guard =
      options.guard ? GuardOptions::parse(options.guard) : GuardOptions::usual(transport);
  return agreement;
}

// A rank that was given what cannot be tells those who wait for its notes.
Agreement agreement_or_abort(Transport& transport, const laconic_method_options& options) {
  try {
    return agreement_of(transport, options);
  } catch (const Error& error) {
    Conversation(transport, Deadline::in(kLongestTimeout, "agreement of ranks"))
        .abort(transport.rank(), error.what());
    throw;
  }
}

laconic_method method_of(Transport& transport, const laconic_method_options& options) {
  Agreement agreement = agreement_or_abort(transport, options);
  const Places places(agreement.model);
  laconic_method made{std::move(agreement), places, nullptr};
  std::vector<float> start;
  if (options.start)
    gather(arrays_of(options.start, made, "options->start").data(), made.places, start);
  made.method = make_method(made.agreement, start, transport);
  if (!made.method->gradients()) made.parameters = std::move(start);
  return made;
}

// What is remembered of local steps is replaced at once: any start will do that all ranks have.
std::vector<float> some_start(const laconic_method& of) {
  return std::vector<float>(of.method->gradients() ? 0 : of.places.entries());
}

}  // namespace

Aggregator& need_averaging(const laconic_method* method, const char* verb) {
  const laconic_method& of = need(method, "method");
  if (Aggregator* gradients = of.method->gradients()) return *gradients;
  throw UsageError("recipe '" + of.agreement.recipe.name +
                   "' averages no gradients; allowed: laconic_before_update and "
                   "laconic_after_update, not " +
                   verb);
}

laconic_method& need_local(laconic_method* method, const char* verb) {
  laconic_method& of = need(method, "method");
  if (!of.method->gradients()) return of;
  throw UsageError("recipe '" + of.agreement.recipe.name +
                   "' averages gradients; allowed: laconic_begin, laconic_submit and "
                   "laconic_finish, or laconic_average, not " +
                   verb);
}

void gather(const float* const* arrays, const Places& places, std::vector<float>& into) {
  into.resize(places.entries());
  for (std::size_t t = 0; t < places.tensors(); ++t)
    std::copy_n(arrays[t], places.count(t),
                into.begin() + static_cast<std::ptrdiff_t>(places.begin(t)));
}

void scatter(std::span<const float> from, const Places& places, float* const* arrays) {
  for (std::size_t t = 0; t < places.tensors(); ++t)
    std::ranges::copy(from.subspan(places.begin(t), places.count(t)), arrays[t]);
}

}  // namespace laconic::c

using namespace laconic;
using namespace laconic::c;

laconic_status laconic_method_create(laconic_transport* transport,
                                     const laconic_method_options* options,
                                     laconic_method** method) {
  return create(method, "method", [&] {
    return method_of(*need(transport, "transport").end, read_struct(options, "options"));
  });
}

void laconic_method_free(laconic_method* method) { destroy(method); }

laconic_status laconic_method_set_transport(laconic_method* method, laconic_transport* transport) {
  return guard([&] {
    laconic_method& of = need(method, "method");
    Transport& end = *need(transport, "transport").end;
    const State state = of.method->gradients() ? exchange_state(of) : State();
    auto other = make_method(of.agreement, some_start(of), end);
    if (Aggregator* gradients = other->gradients()) {
      gradients->load(state);
    } else {
      of.parameters.resize(of.places.entries());
      other->load(of.method->save(of.parameters), of.parameters);
    }
    of.method = std::move(other);
  });
}

laconic_status laconic_method_regroup(laconic_method* method, laconic_transport* among,
                                      float* const* parameters, int* outcome) {
  return guard([&] {
    laconic_method& of = need(method, "method");
    Transport& end = *need(among, "among").end;
    need(outcome, "outcome") = LACONIC_NONE;
    if (of.method->gradients() && !parameters) {
      *outcome = static_cast<int>(of.method->regroup(of.agreement, {}, end));
      return;
    }
    const auto arrays = arrays_of(parameters, of, "parameters");
    gather(arrays.data(), of.places, of.parameters);
    *outcome = static_cast<int>(of.method->regroup(of.agreement, of.parameters, end));
    scatter(of.parameters, of.places, arrays.data());
  });
}

laconic_status laconic_averages_gradients(const laconic_method* method, int* averages) {
  return guard(
      [&] { need(averages, "averages") = need(method, "method").method->gradients() != nullptr; });
}

laconic_status laconic_replicas_equal(const laconic_method* method, int* equal) {
  return guard([&] { need(equal, "equal") = need(method, "method").method->replicas_equal(); });
}

laconic_status laconic_set_back(const laconic_method* method, int* set_back) {
  return guard([&] { need(set_back, "set_back") = need(method, "method").method->set_back(); });
}

laconic_status laconic_residual_norm(const laconic_method* method, double* norm) {
  return guard([&] { need(norm, "norm") = need(method, "method").method->residual_norm(); });
}
