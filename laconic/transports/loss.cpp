// The sentence for a rank that is lost.
#include "laconic/transports/loss.h"

namespace laconic {

TransportError lost_error(const Loss& loss, std::string_view operation) {
  const std::string lost = "rank " + std::to_string(loss.lost),
                    peer = "rank " + std::to_string(loss.peer);
  if (loss.lost == loss.rank)
    return TransportError("what " + lost + " has sent does not arrive: it waits for " + peer + " " +
                              loss.what + ", and " + peer + ", in the end, for that (" +
                              std::string(operation) + ")",
                          loss.lost);
  const bool direct = loss.lost == loss.peer;
  return TransportError(lost + (loss.left ? " has left while rank " : " does not answer: rank ") +
                            std::to_string(loss.rank) + " waits for " + (direct ? "it" : peer) +
                            " " + loss.what +
                            (direct ? "" : ", and " + peer + ", in the end, for " + lost) + " (" +
                            std::string(operation) + ")",
                        loss.lost);
}

}  // namespace laconic
