// How a program becomes one rank of several processes, by whatever has started them.
#pragma once

#include <functional>
#include <memory>

#include "laconic/base/registry.h"
#include "laconic/exchange/transport.h"

namespace laconic {

// This process among the others.
class Membership {
 public:
  virtual ~Membership() = default;
  virtual Transport& transport() = 0;

  // For a rank that cannot go on and has said why: the others hear it, or are ended, and this
  // process ends with `status`.
  [[noreturn]] virtual void end_all(int status, std::string_view reason) = 0;
  // All ranks have come to the same end and call this.
  [[noreturn]] virtual void end_together(int status) = 0;
};

struct Launch {
  std::string name;  // the transport's
  std::string how;   // "each process that mpirun starts"
  std::function<std::unique_ptr<Membership>(double timeout_seconds)> join;
};

const Registry<Launch>& launches();

struct RegisterLaunch {
  explicit RegisterLaunch(Launch launch);
};

}  // namespace laconic
