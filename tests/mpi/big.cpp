// A message of more bytes than an int can count: mpirun -n 2. Takes 9 GB of memory, so it runs only
// where LACONIC_BIG_TESTS is 1; else it is skipped.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "laconic/laconic.h"

namespace {

constexpr std::size_t kBytes = (std::size_t{1} << 31) + 64;

// Word i of the message: no two pieces of it are alike.
std::uint64_t word(std::size_t i) { return 0x9e3779b97f4a7c15ULL * (i + 1); }

bool is_right(const std::vector<std::uint8_t>& bytes) {
  for (std::size_t i = 0; i < kBytes / 8; ++i)
    if (laconic::load<std::uint64_t>(&bytes[8 * i]) != word(i)) return false;
  return true;
}

int run(laconic::Transport& transport) {
  std::vector<std::uint8_t> bytes(kBytes);
  const auto deadline = laconic::Deadline::in(280, "a big message");
  if (transport.rank() == 0) {
    for (std::size_t i = 0; i < kBytes / 8; ++i) laconic::store(&bytes[8 * i], word(i));
    const laconic::Send send{1, bytes};
    laconic::Conversation(transport, deadline).exchange({&send, 1}, {});
    return transport.bytes_sent() == laconic::kMessageHead + kBytes ? 0 : 1;
  }
  const auto receive = laconic::Receive::exactly(0, bytes);
  laconic::Conversation(transport, deadline).exchange({}, {&receive, 1});
  if (!is_right(bytes)) return 1;
  std::printf("%zu bytes arrived\n", kBytes);
  return 0;
}

}  // namespace

int main() {
  const char* const asked = std::getenv("LACONIC_BIG_TESTS");
  if (!asked || std::strcmp(asked, "1") != 0) {
    std::puts("skipped: LACONIC_BIG_TESTS is not 1");
    return 77;
  }
  const laconic::MpiSession session;
  return run(*laconic::make_mpi_transport());
}
