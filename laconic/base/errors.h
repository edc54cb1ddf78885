// The families of errors. Each message is one sentence for the person who can mend it.
#pragma once

#include <stdexcept>
#include <string>

namespace laconic {

// The program's exit codes and the C ABI's status codes.
enum class Status : int {
  ok = 0,
  system = 1,     // no memory, no space, a file that cannot be written
  usage = 2,      // a wrong spec, option or argument
  data = 3,       // bytes that are not what they should be
  transport = 4,  // a peer that does not answer
};

class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  Status status() const { return status_; }

 private:
  Status status_;
};

struct SystemError : Error {
  explicit SystemError(const std::string& message) : Error(Status::system, message) {}
};
struct UsageError : Error {
  explicit UsageError(const std::string& message) : Error(Status::usage, message) {}
};
struct DataError : Error {
  explicit DataError(const std::string& message) : Error(Status::data, message) {}
};
struct TransportError : Error {
  explicit TransportError(const std::string& message) : Error(Status::transport, message) {}
};

}  // namespace laconic
