// The zip format (PKWARE APPNOTE, sections 4.3.7, 4.3.12 and 4.3.16). The directory at the end is
// what counts; of a local header only its length is used, because its sizes may be filled in later.
#include "laconic/base/npz.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

#include "laconic/base/errors.h"

namespace laconic {
namespace {

constexpr std::uint16_t kVersion = 20, kStored = 0, kDeflated = 8, kEncrypted = 1, kUtf8 = 0x800;
constexpr std::string_view kLocal = "PK\3\4", kEntry = "PK\1\2", kEnd = "PK\5\6";
constexpr std::size_t kLocalSize = 30, kEntrySize = 46, kEndSize = 22;
constexpr std::uint32_t kElsewhere = 0xffffffff;  // of a size or place: it is in a zip64 field
constexpr std::uint64_t kMostDeflated = 1032;     // bytes that one deflated byte can stand for
constexpr std::uint32_t kDate = 0x00210000;       // 1980-01-01: the same array gives the same bytes

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

[[noreturn]] void refuse(const std::string& why) {
  throw DataError("not a whole .npz file: " + why);
}

// The bytes [at, at + size), which must be there.
ByteView part(ByteView bytes, std::uint64_t at, std::uint64_t size, const char* what) {
  if (at > bytes.size() || size > bytes.size() - at)
    refuse(std::string(what) + " goes beyond the end of the file");
  return bytes.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size));
}

// The record at the end: it is followed by a comment that fills the file.
ByteView find_end(ByteView bytes) {
  constexpr std::size_t kLongestComment = 65535;
  const std::size_t furthest = std::min(bytes.size(), kEndSize + kLongestComment);
  for (std::size_t back = kEndSize; back <= furthest; ++back) {
    const ByteView end = bytes.last(back);
    if (as_text(end).starts_with(kEnd) && load<std::uint16_t>(end.data() + 20) == back - kEndSize)
      return end;
  }
  refuse("it does not end with the directory of a zip archive");
}

// One array as the directory describes it.
struct Packed {
  std::string name;
  std::uint16_t method;
  std::uint32_t crc, size;
  ByteView bytes;
};

std::string array_name(std::string_view file) {
  if (!file.ends_with(".npy"))
    refuse("it holds '" + std::string(file) + "', whose name does not end in .npy");
  return std::string(file.substr(0, file.size() - 4));
}

ByteView packed_bytes(ByteView archive, std::uint32_t offset, std::uint32_t size) {
  const ByteView local = part(archive, offset, kLocalSize, "an array");
  if (!as_text(local).starts_with(kLocal)) refuse("an array is not where the directory says");
  const std::uint64_t before =
      kLocalSize + load<std::uint16_t>(local.data() + 26) + load<std::uint16_t>(local.data() + 28);
  return part(archive, offset + before, size, "an array");
}

// Reads one entry off the front of the directory.
Packed take_entry(ByteView archive, ByteView& directory) {
  const ByteView head = part(directory, 0, kEntrySize, "the directory");
  if (!as_text(head).starts_with(kEntry)) refuse("its directory has something else than entries");
  const auto short_at = [&](std::size_t at) { return load<std::uint16_t>(head.data() + at); };
  const auto long_at = [&](std::size_t at) { return load<std::uint32_t>(head.data() + at); };
  const std::size_t name_size = short_at(28);
  const ByteView name = part(directory, kEntrySize, name_size, "the directory");
  Packed packed{array_name(as_text(name)), short_at(10), long_at(16), long_at(24), {}};
  if (short_at(8) & kEncrypted) refuse("array '" + packed.name + "' is encrypted");
  if (packed.method != kStored && packed.method != kDeflated)
    refuse("array '" + packed.name + "' is packed by method " + std::to_string(packed.method) +
           "; allowed: 0 (stored) and 8 (deflated)");
  if (std::max({long_at(20), packed.size, long_at(42)}) == kElsewhere)
    refuse("array '" + packed.name + "' lies beyond 4 GiB, which is not read");
  packed.bytes = packed_bytes(archive, long_at(42), long_at(20));
  const std::size_t all = kEntrySize + name_size + short_at(30) + short_at(32);
  directory = directory.subspan(part(directory, 0, all, "the directory").size());
  return packed;
}

std::vector<Packed> read_directory(ByteView bytes) {
  const ByteView end = find_end(bytes);
  const auto count = load<std::uint16_t>(end.data() + 10);
  if (load<std::uint32_t>(end.data() + 4) != 0 || load<std::uint16_t>(end.data() + 8) != count)
    refuse("it is one of several parts of an archive");
  ByteView directory = part(bytes, load<std::uint32_t>(end.data() + 16),
                            load<std::uint32_t>(end.data() + 12), "the directory");
  std::vector<Packed> entries;
  while (!directory.empty()) entries.push_back(take_entry(bytes, directory));
  if (entries.size() != count)
    refuse("its directory has " + std::to_string(entries.size()) + " arrays, not the " +
           std::to_string(count) + " it claims");
  return entries;
}

// Returns whether `packed` is exactly one deflated stream of out.size() bytes.
bool inflate_into(ByteView packed, std::span<std::uint8_t> out) {
  z_stream stream{};
  constexpr int kRaw = -15;  // no header of zlib's own
  if (inflateInit2(&stream, kRaw) != Z_OK) throw std::bad_alloc();
  std::uint8_t nothing = 0;  // zlib wants an address even for no bytes
  stream.next_in = const_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = out.empty() ? &nothing : out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  return status == Z_STREAM_END && stream.avail_in == 0 && stream.avail_out == 0;
}

// The bytes of the .npy file; `memory` holds them if they were deflated.
ByteView unpack(const Packed& packed, Buffer& memory) {
  ByteView npy = packed.bytes;
  if (packed.method == kDeflated) {
    if (packed.size / kMostDeflated > packed.bytes.size() ||
        !inflate_into(packed.bytes, memory.reset(packed.size)))
      refuse("array '" + packed.name + "' does not inflate to the " + std::to_string(packed.size) +
             " bytes it claims");
    npy = memory.view();
  }
  if (npy.size() != packed.size ||
      crc32(0, npy.data(), static_cast<uInt>(npy.size())) != packed.crc)
    refuse("array '" + packed.name + "' has another size or checksum than its bytes");
  return npy;
}

void require_within(const std::vector<Packed>& entries, const NpzLimits& limits) {
  std::uint64_t sum = 0;
  for (const Packed& packed : entries) sum += packed.size;
  if (sum > limits.max_bytes)
    throw DataError("the .npz file unpacks to " + std::to_string(sum) + " bytes; allowed: up to " +
                    std::to_string(limits.max_bytes));
}

NpzArray read_array(const Packed& packed, Buffer& memory) {
  const ByteView npy = unpack(packed, memory);
  try {
    return {packed.name, read_npy(npy)};
  } catch (const DataError& error) {
    throw DataError("array '" + packed.name + "': " + error.what());
  } catch (const UsageError& error) {
    throw UsageError("array '" + packed.name + "': " + error.what());
  }
}

}  // namespace

std::vector<NpzArray> read_npz(ByteView bytes, const NpzLimits& limits) {
  const std::vector<Packed> entries = read_directory(bytes);
  require_within(entries, limits);
  std::vector<NpzArray> arrays;
  Buffer memory;
  for (const Packed& packed : entries) arrays.push_back(read_array(packed, memory));
  return arrays;
}

void NpzWriter::add(std::string_view name, ByteView npy) {
  const std::string file = std::string(name) + ".npy";
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (out_.size() + npy.size() + 2 * file.size() + 200 > kMost || file.size() > 65535 ||
      count_ == 65535)
    throw UsageError("an .npz of more than 4 GiB or 65535 arrays cannot be written");
  const auto offset = static_cast<std::uint32_t>(out_.size());
  const auto size = static_cast<std::uint32_t>(npy.size());
  const auto crc = static_cast<std::uint32_t>(crc32(0, npy.data(), size));
  out_.append(as_bytes(kLocal));
  append_common(file, crc, size, out_);
  out_.append(as_bytes(file));
  out_.append(npy);

  directory_.append(as_bytes(kEntry));
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
  out_.append(as_bytes(kEnd));
  out_.append_number(std::uint32_t{0});  // disks
  out_.append_number(count_);
  out_.append_number(count_);
  out_.append_number(static_cast<std::uint32_t>(directory_.size()));
  out_.append_number(offset);
  out_.append_number(std::uint16_t{0});  // comment
  return std::move(out_);
}

}  // namespace laconic
