// The zip format, stored entries only (PKWARE APPNOTE, sections 4.3.7, 4.3.12 and 4.3.16).
#include "laconic/base/npz.h"

#include <zlib.h>

#include <limits>

#include "laconic/base/errors.h"

namespace laconic {
namespace {

constexpr std::uint16_t kVersion = 20, kStored = 0, kUtf8 = 0x800;
constexpr std::uint32_t kDate = 0x00210000;  // 1980-01-01: the same array gives the same bytes

// What a local header and a directory entry have in common.
void append_common(std::string_view name, std::uint32_t crc, std::uint32_t size, Buffer& out) {
  out.append_number(kVersion);
  out.append_number(kUtf8);
  out.append_number(kStored);
  out.append_number(kDate);
  out.append_number(crc);
  out.append_number(size);
  out.append_number(size);
  out.append_number(static_cast<std::uint16_t>(name.size()));
  out.append_number(std::uint16_t{0});  // no extra field
}

}  // namespace

void NpzWriter::add(std::string_view name, ByteView npy) {
  const std::string file = std::string(name) + ".npy";
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (out_.size() + npy.size() + 2 * file.size() + 200 > kMost || file.size() > 65535 ||
      count_ == 65535)
    throw UsageError("an .npz of more than 4 GiB or 65535 arrays cannot be written");
  const auto offset = static_cast<std::uint32_t>(out_.size());
  const auto size = static_cast<std::uint32_t>(npy.size());
  const auto crc = static_cast<std::uint32_t>(crc32(0, npy.data(), size));
  out_.append(as_bytes("PK\3\4"));
  append_common(file, crc, size, out_);
  out_.append(as_bytes(file));
  out_.append(npy);

  directory_.append(as_bytes("PK\1\2"));
  directory_.append_number(kVersion);
  append_common(file, crc, size, directory_);
  directory_.append_number(std::uint16_t{0});  // comment
  directory_.append_number(std::uint16_t{0});  // disk
  directory_.append_number(std::uint16_t{0});  // internal attributes
  directory_.append_number(std::uint32_t{0});  // external attributes
  directory_.append_number(offset);
  directory_.append(as_bytes(file));
  ++count_;
}

Buffer NpzWriter::finish() {
  const auto offset = static_cast<std::uint32_t>(out_.size());
  out_.append(directory_.view());
  out_.append(as_bytes("PK\5\6"));
  out_.append_number(std::uint32_t{0});  // disks
  out_.append_number(count_);
  out_.append_number(count_);
  out_.append_number(static_cast<std::uint32_t>(directory_.size()));
  out_.append_number(offset);
  out_.append_number(std::uint16_t{0});  // comment
  return std::move(out_);
}

}  // namespace laconic
