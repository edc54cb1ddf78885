// Whole files in, whole files out.
#pragma once

#include <string>

#include "laconic/base/buffer.h"

namespace laconic {

// Throws UsageError with path and reason when there is no such file, it may not be read, or it is a
// folder or a device, and when something that does not tell its size, such as a pipe, has given
// `most` bytes and goes on; 0: a quarter of the machine's memory.
Buffer read_file(const std::string& path, std::size_t most = 0);

// Writes the file as a whole or not at all: it appears under its name when every byte is on disk,
// and until then a file of that name stays as it was. Links are followed; devices and pipes are
// written straight through. Throws SystemError with path and reason.
void write_file(const std::string& path, ByteView bytes);

// Throws what write_file would throw now, but for a disk that is full: to be called before work
// whose result is to be written there. Leaves nothing.
void require_writable(const std::string& path);

}  // namespace laconic
