// Before processes train together: each may have found something wrong in its own place.
#pragma once

#include <optional>
#include <string>

#include "laconic/base/errors.h"
#include "laconic/exchange/transport.h"

namespace laconic::cli {

struct Obstacle {
  Status status = Status::system;
  std::string message;
};

// All ranks call this with what keeps them from starting, if anything does, and all get the same
// answer: the first obstacle in rank order, whose message names the rank unless all have the same.
std::optional<Obstacle> first_obstacle(const std::optional<Obstacle>& mine, Transport& transport,
                                       double timeout_seconds);

}  // namespace laconic::cli
