// Joining the others, and ending with them.
#include "cli/trainer/processes.h"

#include <fmt/format.h>

#include "cli/text.h"
#include "cli/trainer/obstacle.h"
#include "laconic/base/errors.h"
#include "laconic/transports/launch.h"

namespace laconic::cli {
namespace {

// Calls f and gives back what it threw, for the others to hear.
template <class F>
std::optional<Obstacle> obstacle_of(F f) {
  try {
    f();
    return {};
  } catch (const Error& error) {
    return Obstacle{error.status(), error.what()};
  } catch (const std::exception& error) {
    return Obstacle{Status::system, error.what()};
  }
}

void say(const Obstacle& obstacle) {
  fmt::print(stderr, "laconic: {}\n", printable(obstacle.message));
  std::fflush(nullptr);
}

// If some rank cannot go on, all hear of the first; rank 0 says it, and all end.
void end_if_some_cannot(const std::optional<Obstacle>& mine, double timeout_seconds,
                        Membership& among) {
  const auto first = first_obstacle(mine, among.transport(), timeout_seconds);
  if (!first) return;
  if (among.transport().rank() == 0) say(*first);
  among.end_together(static_cast<int>(first->status));
}

// What is wrong with the run all ranks find at the same time, and rank 0 says it.
void end_if_found_by_all(const Obstacle& failure, Membership& among) {
  constexpr double kTogether = 10;  // seconds
  if (failure.status != Status::usage) return;
  try {
    end_if_some_cannot(failure, kTogether, among);
  } catch (const Error&) {  // the others have not found it
  }
}

std::string launch_names() {
  std::string names;
  for (const Launch& launch : launches().all()) names += launch.name + " ";
  return names;
}

}  // namespace

std::string transport_help() {
  std::string help = "threads";
  for (const Launch& launch : launches().all()) help += ", or " + launch.name + ": " + launch.how;
  return help;
}

void take_ranks(trainer::Settings& settings, bool asked_for, int ranks) {
  if (asked_for && settings.workers != static_cast<std::size_t>(ranks))
    throw UsageError(fmt::format("--workers {}, but there {} {} process{}; each is a worker",
                                 settings.workers, ranks == 1 ? "is" : "are", ranks,
                                 ranks == 1 ? "" : "es"));
  settings.workers = static_cast<std::size_t>(ranks);
}

void on_transport(const std::string& name, double timeout_seconds,
                  const std::function<void(const Transport*)>& prepare,
                  const std::function<void(Transport*)>& work) {
  const Launch* const launch = launches().find(name);
  if (!launch) {
    if (name != "threads")
      throw UsageError("no transport '" + name + "' to train on; known: " + launch_names() +
                       "threads");
    prepare(nullptr);
    return work(nullptr);
  }
  const auto among = launch->join(timeout_seconds);
  Transport& transport = among->transport();
  const auto obstacle = obstacle_of([&] { prepare(&transport); });
  end_if_some_cannot(obstacle, timeout_seconds, *among);
  auto failure = obstacle_of([&] { work(&transport); });
  if (!failure) return;
  end_if_found_by_all(*failure, *among);
  const std::string reason = failure->message;
  if (transport.rank() != 0)
    failure->message = fmt::format("rank {}: {}", transport.rank(), reason);
  say(*failure);
  among->end_all(static_cast<int>(failure->status), reason);
}

}  // namespace laconic::cli
