// Ranks as threads of one test.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support.h"

namespace laconic::testing {

using Ends = std::vector<std::unique_ptr<Transport>>;

// Runs one function per rank, each in its thread with its own end, and gives back what each threw
// ("" for nothing). The function may destroy its end; else that happens when it is done, which
// tells the others that the rank has left.
template <class Body>
std::vector<std::string> with_ends(Ends ends, Body body) {
  std::vector<std::string> errors(ends.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ends.size(); ++rank)
    threads.emplace_back([&, rank, end = std::move(ends[rank])]() mutable {
      try {
        body(end);
      } catch (const TransportError& error) {
        errors[rank] = std::string("transport: ") + error.what();
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
      end.reset();
    });
  for (auto& thread : threads) thread.join();
  return errors;
}

template <class Body>
std::vector<std::string> on_ranks(int size, Body body) {
  return with_ends(make_thread_transports(size), [&](auto& end) { body(*end); });
}

inline void expect_no_errors(const std::vector<std::string>& errors) {
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

}  // namespace laconic::testing
