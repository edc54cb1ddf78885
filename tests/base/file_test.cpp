// Whole files in: what has no end is refused where it is too much.
#include "laconic/base/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "tests/support.h"

namespace laconic {
namespace {

using testing::message_of;

Buffer of_size(std::size_t bytes) {
  Buffer buffer;
  std::ranges::fill(buffer.reset(bytes), std::uint8_t{1});
  return buffer;
}

class Pipe : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0); }
  void TearDown() override { ::unlink(path_.c_str()); }

  // What comes of a pipe that has so many bytes.
  Buffer read(std::size_t bytes, std::size_t most) {
    std::thread writer([&] { write_file(path_, of_size(bytes).view()); });
    Buffer got = read_file(path_, most);
    writer.join();
    return got;
  }

  const std::string path_ =
      std::filesystem::temp_directory_path() / ("laconic-pipe-" + std::to_string(::getpid()));
};

TEST_F(Pipe, IsReadToItsEnd) {
  EXPECT_EQ(read(3'000'000, 0).size(), 3'000'000U);
  EXPECT_EQ(read(3'000'000, 3'000'000).size(), 3'000'000U);
}

// A writer that is left alone meets a broken pipe.
TEST_F(Pipe, ThatGoesOnIsRefused) {
  std::signal(SIGPIPE, SIG_IGN);
  std::string told;
  std::thread writer([&] {
    told = message_of<SystemError>([&] { write_file(path_, of_size(40'000'000).view()); });
  });
  EXPECT_EQ(
      message_of<UsageError>([&] { read_file(path_, 1'000'000); }),
      "cannot read " + path_ +
          ": it goes on after 1000000 bytes, the most allowed of what does not tell its size");
  writer.join();
  EXPECT_NE(told.find("Broken pipe"), std::string::npos) << told;
}

TEST(Devices, AreNotRead) {
  for (const char* device : {"/dev/zero", "/dev/null"})
    EXPECT_EQ(message_of<UsageError>([&] { read_file(device); }),
              std::string("cannot read ") + device + ": a device; allowed: a file or a pipe");
}

}  // namespace
}  // namespace laconic
