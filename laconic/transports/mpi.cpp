// mpi: messages by heads and payloads (messenger.h), and MPI's own all-reduce.
#include "laconic/transports/mpi.h"

#include "laconic/transports/mpi_wire.h"

namespace laconic {
namespace {

class Mpi : public Messenger<mpi::Wire> {
 public:
  Mpi(MPI_Comm of, const MpiOptions& options)
      : Messenger(std::make_unique<mpi::Wire>(of, options.timeout_seconds,
                                              static_cast<std::uint32_t>(options.piece_bytes))),
        own_reduce_(options.own_reduce) {}

  bool reduces() const override { return own_reduce_ && size() > 1; }
  bool joins_processes() const override { return true; }

 protected:
  void do_start_reduce(std::span<float> values, Transfer& transfer) override {
    auto& flight = prepare(transfer);
    flight.ins.clear();
    flight.unmatched = 0;
    flights_.push_back(&flight);
    try {
      if (reduce_lost_)
        throw TransportError("an all-reduce was ended before, and MPI cannot take it back");
      reduce(values, transfer, flight);
    } catch (...) {
      flight.error = std::current_exception();
    }
  }

  void do_cancel(Transfer& transfer) noexcept override {
    if (!transfer.state<Flight>().values.empty()) reduce_lost_ = true;
    Messenger::do_cancel(transfer);
  }

  void do_close(std::uint64_t attempt) override {
    if (attempts_.is_aborted(attempt)) reduce_lost_ = true;
    Messenger::do_close(attempt);
  }

 private:
  void reduce(std::span<float> values, const Transfer& transfer, Flight& flight) {
    constexpr std::size_t kMost = 1 << 30;  // MPI counts in int
    flight.values = values;
    std::span<float> sums = values;
    if (!transfer.keep_alive) {
      flight.reduced.reset(values.size_bytes());
      sums = {reinterpret_cast<float*>(flight.reduced.data()), values.size()};
      std::ranges::copy(values, sums.begin());
    }
    flight.requests.reserve(values.size() / kMost + 1);
    for (std::size_t from = 0; from < sums.size(); from += kMost) {
      MPI_Request request;
      mpi::check(MPI_Iallreduce(MPI_IN_PLACE, sums.data() + from,
                                static_cast<int>(std::min(kMost, sums.size() - from)), MPI_FLOAT,
                                MPI_SUM, wire_->comm(), &request),
                 "MPI_Iallreduce");
      flight.requests.push_back(request);
    }
    flight.peers.resize(flight.requests.size(), rank());
  }

  bool own_reduce_, reduce_lost_ = false;
};

std::unique_ptr<Transport> make(MPI_Comm comm, const MpiOptions& options) {
  if (options.piece_bytes < 1 || options.piece_bytes > 0x7fffffff)
    throw UsageError("pieces of " + std::to_string(options.piece_bytes) +
                     " bytes; allowed: 1 to 2147483647");
  return std::make_unique<Mpi>(comm, options);
}

void need_mpi() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (!initialized || finalized)
    throw UsageError("MPI is not started; an MpiSession or MPI_Init_thread does it");
}

const RegisterTransport mpi_transport{{
    .name = "mpi",
    .summary = "Ranks as processes that mpirun starts, on one machine or many.",
    .paper = "",
    .parameters = {},
}};

}  // namespace

bool has_mpi() { return true; }

std::unique_ptr<Transport> make_mpi_transport(int communicator, const MpiOptions& options) {
  need_mpi();
  return make(MPI_Comm_f2c(communicator), options);
}

std::unique_ptr<Transport> make_mpi_transport(const MpiOptions& options) {
  need_mpi();
  return make(MPI_COMM_WORLD, options);
}

}  // namespace laconic
