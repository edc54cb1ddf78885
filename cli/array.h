// Arrays and frames in files, and what is said of their sizes.
#pragma once

#include <string>

#include "cli/text.h"
#include "laconic/base/errors.h"
#include "laconic/base/npy.h"
#include "laconic/frame/frame.h"

namespace laconic::cli {

// Runs `read` and puts the path before the message of what it throws.
template <class Read>
auto named(const std::string& path, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(error.status(), path + ": " + error.what());
  }
}

// Reads a .npy file. Errors name the path.
NpyArray read_array(const std::string& path);

// A frame and the bytes its views point into.
struct FrameFile {
  Buffer bytes;
  Frame frame;
};

// Reads a .lac file and checks every section. Errors name the path.
FrameFile read_frame_file(const std::string& path, const FrameLimits& limits, Scratch& scratch);

Dtype frame_dtype(NpyDtype dtype);
NpyDtype npy_dtype(Dtype dtype);  // float32 for bfloat16, which .npy does not have

// The words of docs/frame.md for one array: dense is what it takes uncompressed, in its own dtype.
struct Sizes {
  std::uint64_t count = 0, dense_bytes = 0;
  std::size_t payload_bytes = 0, wire_bytes = 0;

  double ratio() const;           // dense bytes / wire bytes
  double bits_per_entry() const;  // on the wire, headers included; 0 when there is no entry
};

Sizes sizes_of(const FrameHeader& header, std::size_t payload_bytes, std::size_t wire_bytes);

double bits_per_entry(std::uint64_t bytes, std::uint64_t count);

// spec, count, payload_bytes, wire_bytes, ratio, bits_per_entry: the keys that `compress` and
// `inspect` share.
Json to_json(const std::string& spec, const Sizes& sizes);

}  // namespace laconic::cli
