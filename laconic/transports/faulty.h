// A transport on which things go wrong as planned, for tests.
#pragma once

#include <atomic>
#include <memory>

#include "laconic/exchange/transport.h"

namespace laconic {

struct Fault {
  enum class Kind {
    drop,      // it and all that comes after it never leaves, also no abort
    corrupt,   // one bit of it is another
    truncate,  // its last byte is missing
    stale,     // instead of it goes an earlier one of about the same length, once there was one
    stall,     // this rank neither sends nor receives anything until it is released
    kill,      // its end of the other transport is destroyed, and everything throws
  };
  std::uint64_t message;  // of those this rank sends, counted from 0 over all transfers
  Kind kind;
  std::shared_ptr<std::atomic<bool>> released = {};  // of a stall; none: never
};

// Passes everything to another transport, except for these faults.
std::unique_ptr<Transport> make_faulty_transport(std::unique_ptr<Transport> inner,
                                                 std::vector<Fault> faults);

}  // namespace laconic
