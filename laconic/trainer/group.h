// What workers say to each other beside the method's own exchanges: small numbers, models, states.
// Every call is made by all ranks, in the same order.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "laconic/base/bytes.h"
#include "laconic/exchange/transport.h"
#include "laconic/memory/memory.h"

namespace laconic::trainer {

class Group {
 public:
  Group(Transport& transport, double timeout_seconds)
      : transport_(transport), timeout_seconds_(timeout_seconds) {}

  std::size_t rank() const { return static_cast<std::size_t>(transport_.rank()); }
  std::size_t size() const { return static_cast<std::size_t>(transport_.size()); }

  // A few numbers of every rank's, by rank.
  template <class T, std::size_t n>
  std::vector<std::array<T, n>> gather(const std::array<T, n>& mine, std::string_view operation) {
    std::vector<Buffer> all;
    gather_bytes({reinterpret_cast<const std::uint8_t*>(mine.data()), sizeof mine}, all, operation);
    std::vector<std::array<T, n>> numbers(all.size());
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      for (std::size_t i = 0; i < n; ++i)
        numbers[rank][i] = load<T>(all[rank].data() + i * sizeof(T));
    return numbers;
  }

  // Whether any rank says so.
  bool any(bool mine, std::string_view operation);

  // The mean of all ranks' arrays, the same on all.
  void average(std::span<float> values, std::string_view operation);

  // The arrays of these ranks, who get mine: ranks are each other's peers.
  std::vector<std::vector<float>> swap(std::span<const float> mine, std::span<const int> peers,
                                       std::string_view operation);

  // On rank 0 every rank's state, by rank; on the others nothing.
  std::vector<State> states_at_first(const State& mine);

 private:
  // All ranks' bytes are as many as mine.
  void gather_bytes(ByteView mine, std::vector<Buffer>& all, std::string_view operation);
  Deadline deadline(std::string_view operation) const {
    return Deadline::in(timeout_seconds_, operation);
  }

  Transport& transport_;
  double timeout_seconds_;
};

}  // namespace laconic::trainer
