// Heads as bytes.
#include "laconic/transports/head.h"

namespace laconic {
namespace {

constexpr std::uint32_t kMagic = 0x314d434c;  // "LCM1"

DataError damaged(const char* what, int from) {
  return DataError("rank " + std::to_string(from) + " sent " + what, from);
}

}  // namespace

HeadBytes write_head(const Head& head) {
  HeadBytes bytes;
  store(bytes.data(), kMagic);
  store(bytes.data() + 4, static_cast<std::uint32_t>(head.kind));
  store(bytes.data() + 8, head.tag.attempt);
  store(bytes.data() + 16, head.tag.unit);
  store(bytes.data() + 20, head.tag.leg);
  store(bytes.data() + 24, head.length);
  store(bytes.data() + 32, head.sequence);
  return bytes;
}

Head read_head(ByteView bytes, int from) {
  if (bytes.size() < kMessageHead || load<std::uint32_t>(bytes.data()) != kMagic)
    throw damaged("what is no message of this library", from);
  const auto kind = load<std::uint32_t>(bytes.data() + 4);
  if (kind < 1 || kind > static_cast<std::uint32_t>(Head::Kind::leave))
    throw damaged("a message of an unknown kind", from);
  return {.kind = static_cast<Head::Kind>(kind),
          .tag = {.attempt = load<std::uint64_t>(bytes.data() + 8),
                  .unit = load<std::uint32_t>(bytes.data() + 16),
                  .leg = load<std::uint32_t>(bytes.data() + 20)},
          .length = load<std::uint64_t>(bytes.data() + 24),
          .sequence = load<std::uint64_t>(bytes.data() + 32)};
}

Buffer write_reason(int culprit, std::string_view reason) {
  Buffer bytes;
  bytes.append_number(static_cast<std::int32_t>(culprit));
  bytes.append(as_bytes(reason.substr(0, kLongestReason)));
  return bytes;
}

Reason read_reason(ByteView bytes, int from) {
  if (bytes.size() < 4 || bytes.size() > 4 + kLongestReason)
    throw damaged("a reason that is none", from);
  return {load<std::int32_t>(bytes.data()), std::string(as_text(bytes.subspan(4)))};
}

}  // namespace laconic
