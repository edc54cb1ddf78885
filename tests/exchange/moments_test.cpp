// Parts that come at exactly the moments at which the engine's thread talks to its transport: none
// is left out, and the thread does not go to sleep over it.
#include <atomic>
#include <functional>

#include "laconic/layout/places.h"
#include "laconic/transports/wrapped.h"
#include "tests/exchange/failures.h"

namespace laconic::testing {
namespace {

// Calls a function of the test before and after everything that the engine asks of the transport.
class Overheard : public WrappedTransport {
 public:
  Overheard(std::unique_ptr<Transport> inner, std::function<void()> heard)
      : WrappedTransport(std::move(inner)), heard_(std::move(heard)) {}
  ~Overheard() override { cancel_all(); }

  void idle(std::chrono::steady_clock::time_point until) override {
    heard_();
    WrappedTransport::idle(until);
    heard_();
  }

 protected:
  void do_start(Transfer& transfer) override {
    heard_();
    WrappedTransport::do_start(transfer);
    heard_();
  }
  bool do_test(Transfer& transfer) override {
    heard_();
    const bool done = WrappedTransport::do_test(transfer);
    heard_();
    return done;
  }

 private:
  std::function<void()> heard_;
};

// A step of two parts, the second of which comes at the moment-th call of the engine's thread, from
// that thread; or from the caller's, when the first part was done before.
struct Moments {
  std::uint64_t moment = 0;
  std::function<void()> submit;
  std::atomic<std::uint64_t> calls = 0;
  std::atomic<bool> submitted = false;

  bool claim() { return !submitted.exchange(true); }
  void heard() {
    if (calls++ == moment && claim()) submit();
  }
};

// Whether the engine's thread made that many calls.
bool comes_at(const Job& job, std::uint64_t moment, const std::vector<float>& right) {
  std::vector<std::vector<float>> means(static_cast<std::size_t>(job.ranks));
  std::atomic<bool> met = false;
  expect_no_errors(with_ends(make_thread_transports(job.ranks), [&](auto& end) {
    const int rank = end->rank();
    Moments moments;
    moments.moment = rank == 0 ? moment : UINT64_MAX;
    end = std::make_unique<Overheard>(std::move(end), [&] { moments.heard(); });
    Setup setup = setup_of(job, *end);
    setup.unit_bytes = 1;
    setup.engine = Engine::thread;
    const auto aggregator = make_aggregator(job.exchange, std::move(setup));
    auto gradient = gradient_of(rank, 0);
    const Places places(kModel);
    const auto submit = [&](std::vector<std::size_t> tensors) {
      std::vector<void*> data;
      for (const std::size_t t : tensors) data.push_back(gradient.data() + places.begin(t));
      aggregator->submit({.tensors = tensors, .data = data});
    };
    moments.submit = [&] { submit({2, 3}); };
    aggregator->begin({});
    submit({0, 1});
    EXPECT_TRUE(aggregator->wait(0, 3600));
    if (moments.claim())
      submit({2, 3});
    else if (rank == 0)
      met = true;
    EXPECT_TRUE(aggregator->finish().finite);
    means[static_cast<std::size_t>(rank)] = gradient;
  }));
  for (const auto& mean : means) EXPECT_EQ(mean, right) << text_of(job) << ", call " << moment;
  return met;
}

TEST(Moments, APartMayComeWheneverTheEngineIsAtIt) {
  std::uint64_t moments = 0;
  for (Job job : one_of_each(2)) {
    job.steps = 1;
    const auto right = means_of(job)[0][0];
    for (std::uint64_t moment = 0; comes_at(job, moment, right); ++moment) ++moments;
  }
  EXPECT_GT(moments, 7U * 4);
}

// The last part and the end of the step come together, whatever the engine's thread is at. Between
// its looks at them there is no call in which a test could stop it, so many small steps are made: a
// thread that goes to sleep over work hangs here. Alone, a rank has nobody who would miss a part:
// its bytes tell.
TEST(Moments, ThePartBeforeTheEndIsNeverLeftOut) {
  auto ends = make_thread_transports(1);
  laconic::Setup setup = setup_of({.op = "identity", .ranks = 1}, *ends[0]);
  setup.engine = Engine::thread;
  setup.unit_bytes = 1;
  const auto aggregator = make_aggregator("gather", std::move(setup));
  const Places places(kModel);
  auto gradient = gradient_of(0, 0);
  for (std::uint64_t step = 0; step < 20000; ++step) {
    aggregator->begin({.step = step});
    for (std::size_t tensor = 0; tensor < kModel.size() - 1; ++tensor) {
      void* const data[] = {gradient.data() + places.begin(tensor)};
      aggregator->submit({.tensors = {&tensor, 1}, .data = data});
    }
    ASSERT_EQ(aggregator->finish().dense_bytes, 4 * places.begin(kModel.size() - 1)) << step;
    aggregator->commit();
  }
}

}  // namespace
}  // namespace laconic::testing
