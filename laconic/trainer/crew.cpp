// Starting and joining a crew.
#include "laconic/trainer/crew.h"

#include <exception>
#include <system_error>

#include "laconic/base/errors.h"

namespace laconic::trainer {
namespace {

using Failures = std::vector<std::exception_ptr>;

void rethrow_first(const Failures& failures) {
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

void serve(std::unique_ptr<Transport>& end, const Body& body, std::exception_ptr& failure) {
  try {
    body(*end);
  } catch (...) {
    failure = std::current_exception();
  }
  end.reset();
}

}  // namespace

void run_crew(std::vector<std::unique_ptr<Transport>> ends, const Body& body,
              const StartThread& start) {
  Failures failures(ends.size());
  std::vector<std::jthread> threads;  // joined, if by nobody else, before what they use is gone
  threads.reserve(ends.size());
  try {
    for (std::size_t rank = 0; rank < ends.size(); ++rank)
      threads.push_back(start(
          [&end = ends[rank], &body, &failure = failures[rank]] { serve(end, body, failure); }));
  } catch (const std::system_error& error) {
    const std::size_t started = threads.size();
    for (std::size_t rank = started; rank < ends.size(); ++rank) ends[rank].reset();
    threads.clear();
    throw SystemError("only " + std::to_string(started) + " of " + std::to_string(ends.size()) +
                      " workers could be started: " + error.code().message());
  }
  threads.clear();
  rethrow_first(failures);
}

}  // namespace laconic::trainer
