// A run with all its workers.
#include "laconic/trainer/train.h"

#include "laconic/base/errors.h"
#include "laconic/trainer/crew.h"
#include "laconic/trainer/worker.h"
#include "laconic/transports/threads.h"

namespace laconic::trainer {
namespace {

Result work(const Run& run, Transport& transport) {
  use_one_core();
  Worker worker(run, transport);
  worker.train();
  return worker.result();
}

}  // namespace

Result train(const Settings& settings, const Data& data, const Output& output,
             const Observer& observer) {
  const Run run = make_run(settings, data, output, observer);
  const FolderHold hold = make_folder(output.folder);
  Result result;
  run_crew(make_thread_transports(static_cast<int>(settings.workers)), [&](Transport& end) {
    Result own = work(run, end);
    if (end.rank() == 0) result = std::move(own);
  });
  return result;
}

Result train_rank(const Settings& settings, const Data& data, const Output& output,
                  const Observer& observer, Transport& transport) {
  if (settings.workers != static_cast<std::size_t>(transport.size()))
    throw UsageError(std::to_string(settings.workers) + " workers over a transport of " +
                     std::to_string(transport.size()) + " ranks; both must be the same");
  const Run run = make_run(settings, data, output, observer);
  FolderHold hold;
  if (transport.rank() == 0) hold = make_folder(output.folder);
  return work(run, transport);
}

void check_run(const Settings& settings, const Data& data, const Output& output) {
  const Observer nobody;
  make_run(settings, data, output, nobody);
  require_free(output.folder);
}

}  // namespace laconic::trainer
