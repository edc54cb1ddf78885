// Files by POSIX calls: std::fstream neither says why it failed nor can wait for the disk.
#include "laconic/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "laconic/base/errors.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRead = std::size_t{1}
                              << 20;  // bytes asked for when a file does not know its size

std::string reason(int code) { return std::generic_category().message(code); }

[[noreturn]] void refuse_write(const std::string& path, int code) {
  throw SystemError("cannot write " + path + ": " + reason(code));
}

std::size_t quarter_of_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0
             ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) / 4
             : std::size_t{1} << 32;
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool open() const { return number_ >= 0; }
  int number() const { return number_; }

  // Some file systems report a full disk only here. Returns 0 or the error.
  int close() {
    const int result = ::close(number_);
    number_ = -1;
    return result == 0 ? 0 : errno;
  }

 private:
  int number_;
};

// Returns 0 or the error.
int write_all(int number, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(number, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

// What a path names.
struct Target {
  bool exists = false;
  struct stat info {};
  fs::path name = {};  // of the file itself, where the path is a link

  // Renaming onto /dev/null or a pipe would put a file in its place.
  bool special() const { return exists && !S_ISREG(info.st_mode); }
};

Target target_of(const std::string& path) {
  Target target;
  target.exists = ::stat(path.c_str(), &target.info) == 0;
  if (target.exists && S_ISDIR(target.info.st_mode)) refuse_write(path, EISDIR);
  // Renaming asks for the folder's permission only: a file that may not be written would be
  // replaced.
  if (target.exists && ::access(path.c_str(), W_OK) != 0) refuse_write(path, errno);
  target.name = target.exists && !target.special() ? fs::canonical(path) : fs::path(path);
  return target;
}

void write_through(const std::string& path, ByteView bytes) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.open()) refuse_write(path, errno);
  if (const int code = write_all(file.number(), bytes)) refuse_write(path, code);
  if (const int code = file.close()) refuse_write(path, code);
}

// Opens a new file in the target's folder, hence on the same disk. Its name does not grow with the
// target's, which may be as long as names get, and a file left there by a process that was killed
// is stepped over.
int open_beside(const fs::path& target, fs::path& temporary) {
  static std::atomic<unsigned> counter = 0;
  for (;;) {
    temporary = target.parent_path() / (".laconic-" + std::to_string(::getpid()) + "-" +
                                        std::to_string(counter++) + ".tmp");
    const int number = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (number >= 0 || errno != EEXIST) return number;
  }
}

// Returns 0 or the error.
int fill_and_rename(Descriptor& file, const fs::path& temporary, const fs::path& target,
                    ByteView bytes) {
  if (const int code = write_all(file.number(), bytes)) return code;
  if (::fsync(file.number()) != 0) return errno;
  if (const int code = file.close()) return code;
  return ::rename(temporary.c_str(), target.c_str()) == 0 ? 0 : errno;
}

}  // namespace

Buffer read_file(const std::string& path, std::size_t most) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!file.open() || ::fstat(file.number(), &info) != 0)
    throw UsageError("cannot read " + path + ": " + reason(errno));
  if (S_ISDIR(info.st_mode)) throw UsageError("cannot read " + path + ": " + reason(EISDIR));
  if (S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode))
    throw UsageError("cannot read " + path + ": a device; allowed: a file or a pipe");

  if (most == 0) most = quarter_of_memory();
  most = std::max(most, static_cast<std::size_t>(info.st_size));
  Buffer bytes;
  // One byte more than the size, so that the first read of a file meets its end.
  std::size_t step = info.st_size > 0 ? static_cast<std::size_t>(info.st_size) + 1 : kRead;
  for (;; step = kRead) {
    const std::size_t before = bytes.size();
    const ssize_t got = ::read(file.number(), bytes.grow(step), step);
    if (got < 0 && errno != EINTR) throw SystemError("cannot read " + path + ": " + reason(errno));
    bytes.truncate(before + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got == 0) return bytes;
    if (bytes.size() > most)
      throw UsageError("cannot read " + path + ": it goes on after " + std::to_string(most) +
                       " bytes, the most allowed of what does not tell its size");
  }
}

void require_writable(const std::string& path) {
  const Target target = target_of(path);
  if (target.special()) return;
  fs::path temporary;
  const Descriptor file(open_beside(target.name, temporary));
  if (!file.open()) refuse_write(path, errno);
  ::unlink(temporary.c_str());
}

void write_file(const std::string& path, ByteView bytes) {
  const Target target = target_of(path);
  if (target.special()) return write_through(path, bytes);
  fs::path temporary;
  Descriptor file(open_beside(target.name, temporary));
  if (!file.open()) refuse_write(path, errno);
  if (target.exists) ::fchmod(file.number(), target.info.st_mode & 07777);
  const int code = fill_and_rename(file, temporary, target.name, bytes);
  if (code == 0) return;
  ::unlink(temporary.c_str());
  refuse_write(path, code);
}

}  // namespace laconic
