// The thread pool: one batch of pieces at a time, taken by counter.
#include "laconic/base/pool.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "laconic/base/errors.h"

namespace laconic {

struct Pool::Shared {
  std::mutex mutex;
  std::condition_variable wake, done;
  std::size_t pieces = 0;
  std::atomic<std::size_t> next = 0;
  const void* work = nullptr;
  Call call = nullptr;
  std::exception_ptr failure;
  std::uint64_t batch = 0;
  unsigned busy = 0;
  bool stop = false;
  std::vector<std::thread> threads;

  void take(unsigned thread) {
    try {
      for (std::size_t piece; (piece = next++) < pieces;) call(work, piece, thread);
    } catch (...) {
      next = pieces;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }

  void join() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    wake.notify_all();
    for (auto& thread : threads) thread.join();
  }

  void serve(unsigned thread) {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [&] { return stop || batch != seen; });
      if (stop) return;
      seen = batch;
      lock.unlock();
      take(thread);
      lock.lock();
      if (--busy == 0) done.notify_one();
    }
  }
};

Pool::Pool(unsigned threads) : shared_(std::make_unique<Shared>()) {
  if (threads < 1 || threads > 1024)
    throw UsageError("a pool of " + std::to_string(threads) + " threads; allowed: 1 to 1024");
  try {
    for (unsigned t = 1; t < threads; ++t)
      shared_->threads.emplace_back([shared = shared_.get(), t] { shared->serve(t); });
  } catch (const std::system_error& error) {
    const std::size_t started = shared_->threads.size() + 1;
    shared_->join();
    throw SystemError("only " + std::to_string(started) + " of " + std::to_string(threads) +
                      " threads could be started: " + error.code().message());
  }
}

Pool::~Pool() { shared_->join(); }

unsigned Pool::threads() const { return static_cast<unsigned>(shared_->threads.size()) + 1; }

void Pool::run(std::size_t pieces, const void* work, Call call) {
  Shared& s = *shared_;
  if (s.threads.empty() || pieces <= 1) {
    for (std::size_t piece = 0; piece < pieces; ++piece) call(work, piece, 0);
    return;
  }
  {
    const std::lock_guard lock(s.mutex);
    s.pieces = pieces;
    s.next = 0;
    s.work = work;
    s.call = call;
    s.failure = nullptr;
    s.busy = static_cast<unsigned>(s.threads.size());
    ++s.batch;
  }
  s.wake.notify_all();
  s.take(0);
  std::unique_lock lock(s.mutex);
  s.done.wait(lock, [&] { return s.busy == 0; });
  if (s.failure) std::rethrow_exception(std::exchange(s.failure, nullptr));
}

}  // namespace laconic
