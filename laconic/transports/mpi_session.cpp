// MPI's start and end, and the end of wires.
#include <cstdlib>
#include <mutex>

#include "laconic/transports/mpi.h"
#include "laconic/transports/mpi_wire.h"

namespace laconic {
namespace {

constexpr double kPatience = 5;  // seconds for others to leave, at the end

// The one place for wires without a transport. MPI itself is one to a process.
struct Graveyard {
  std::mutex mutex;
  std::vector<std::unique_ptr<mpi::Wire>> wires;
};

Graveyard& graveyard() {
  static Graveyard wires;
  return wires;
}

bool started() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized && !finalized;
}

// MPI calls this before it ends, whoever ends it.
int drain_all(MPI_Comm, int, void*, void*) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(kPatience);
  const std::lock_guard lock(graveyard().mutex);
  for (auto& wire : graveyard().wires) {
    Patience patience;
    bool drained = wire->drained();
    while (!drained && std::chrono::steady_clock::now() < until) {
      patience.pause(std::chrono::steady_clock::time_point::max());
      drained = wire->drained();
    }
    drained ? wire->release() : wire->forget();
  }
  graveyard().wires.clear();
  return MPI_SUCCESS;
}

// Once in a process: what hangs on MPI_COMM_SELF is taken off before MPI ends.
void call_before_the_end() {
  static const bool done = [] {
    int key = MPI_KEYVAL_INVALID;
    return MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, drain_all, &key, nullptr) == MPI_SUCCESS &&
           MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr) == MPI_SUCCESS;
  }();
  static_cast<void>(done);
}

}  // namespace

namespace mpi {

void bury(std::unique_ptr<Wire> wire) noexcept {
  if (!started()) return wire->forget();
  call_before_the_end();
  const std::lock_guard lock(graveyard().mutex);
  graveyard().wires.push_back(std::move(wire));
  std::erase_if(graveyard().wires, [](auto& buried) {
    if (!buried->drained()) return false;
    buried->release();
    return true;
  });
}

}  // namespace mpi

MpiSession::MpiSession() {
  if (started()) return;
  int provided = MPI_THREAD_SINGLE;
  mpi::check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided),
             "MPI_Init_thread");
  ours_ = true;
  if (provided < MPI_THREAD_SERIALIZED) {
    MPI_Finalize();
    throw TransportError("this MPI does not let other threads than the main one call it");
  }
}

MpiSession::~MpiSession() {
  if (ours_ && started()) MPI_Finalize();
}

void MpiSession::abort(int status) {
  MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

}  // namespace laconic
