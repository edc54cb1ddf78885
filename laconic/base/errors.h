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

inline constexpr int kNobody = -1;

class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message, int rank = kNobody)
      : std::runtime_error(message), status_(status), rank_(rank) {}
  Status status() const { return status_; }
  int rank() const { return rank_; }  // whose fault it is, kNobody where that is not known

 private:
  Status status_;
  int rank_;
};

struct SystemError : Error {
  explicit SystemError(const std::string& message) : Error(Status::system, message) {}
};
struct UsageError : Error {
  explicit UsageError(const std::string& message, int rank = kNobody)
      : Error(Status::usage, message, rank) {}
};
struct DataError : Error {
  explicit DataError(const std::string& message, int rank = kNobody)
      : Error(Status::data, message, rank) {}
};
struct TransportError : Error {
  explicit TransportError(const std::string& message, int rank = kNobody)
      : Error(Status::transport, message, rank) {}
};
// Another rank has ended the attempt, and has not voted in it.
struct Aborted : TransportError {
  using TransportError::TransportError;
};

}  // namespace laconic
