// Whole files in, whole files out.
#pragma once

#include <string>

#include "laconic/base/buffer.h"

namespace laconic {

// Throws UsageError with path and reason when there is no such file, it may not be read or it is a
// folder.
Buffer read_file(const std::string& path);

// Writes the file as a whole or not at all: it appears under its name when every byte is on disk,
// and until then a file of that name stays as it was. Links are followed; devices and pipes are
// written straight through. Throws SystemError with path and reason.
void write_file(const std::string& path, ByteView bytes);

}  // namespace laconic
