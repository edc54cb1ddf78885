// A transport on which things go wrong as planned, for tests.
#pragma once

#include <memory>

#include "laconic/exchange/transport.h"

namespace laconic {

struct Fault {
  enum class Kind {
    drop,      // what this rank sends is lost, now and ever after: an ordered link has no gaps
    delay,     // this rank takes part `seconds` later
    corrupt,   // one bit of each message it sends is another
    truncate,  // the last byte of each message it sends is missing
    kill,      // its end of the other transport is destroyed, and every exchange throws
  };
  std::uint64_t exchange;  // counted on this rank from 0; a collective is several
  Kind kind;
  double seconds = 0;
};

// Passes everything to another transport, except for these faults. Collectives are made of
// exchanges, also where the other transport has its own.
std::unique_ptr<Transport> make_faulty_transport(std::unique_ptr<Transport> inner,
                                                 std::vector<Fault> faults);

}  // namespace laconic
