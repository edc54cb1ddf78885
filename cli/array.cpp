// The way from files to arrays and frames.
#include "cli/array.h"

#include <nlohmann/json.hpp>

#include "laconic/base/file.h"

namespace laconic::cli {
NpyArray read_array(const std::string& path) {
  const Buffer bytes = read_file(path);
  return named(path, [&] { return read_npy(bytes.view()); });
}

FrameFile read_frame_file(const std::string& path, const FrameLimits& limits, Scratch& scratch) {
  Buffer bytes = read_file(path);
  Frame frame = named(path, [&] {
    Frame read = read_frame(bytes.view(), limits);
    check_sections(read, scratch);
    return read;
  });
  return {std::move(bytes), std::move(frame)};
}

Dtype frame_dtype(NpyDtype dtype) {
  if (dtype == NpyDtype::float16) return Dtype::float16;
  return dtype == NpyDtype::float64 ? Dtype::float64 : Dtype::float32;
}

NpyDtype npy_dtype(Dtype dtype) {
  if (dtype == Dtype::float16) return NpyDtype::float16;
  return dtype == Dtype::float64 ? NpyDtype::float64 : NpyDtype::float32;
}

double Sizes::ratio() const {
  return static_cast<double>(dense_bytes) / static_cast<double>(wire_bytes);
}

double Sizes::bits_per_entry() const { return cli::bits_per_entry(wire_bytes, count); }

Sizes sizes_of(const FrameHeader& header, std::size_t payload_bytes, std::size_t wire_bytes) {
  const std::uint64_t count = header.count();
  return {count, count * dtype_size(header.dtype), payload_bytes, wire_bytes};
}

double bits_per_entry(std::uint64_t bytes, std::uint64_t count) {
  return count == 0 ? 0 : 8 * static_cast<double>(bytes) / static_cast<double>(count);
}

Json to_json(const std::string& spec, const Sizes& sizes) {
  return {{"spec", spec},
          {"count", sizes.count},
          {"payload_bytes", sizes.payload_bytes},
          {"wire_bytes", sizes.wire_bytes},
          {"ratio", sizes.ratio()},
          {"bits_per_entry", sizes.bits_per_entry()}};
}

}  // namespace laconic::cli
