// Writing frames. The numbers in comments are those of docs/frame.md.
#include "laconic/codecs/crc32c.h"
#include "laconic/codecs/varint.h"
#include "laconic/frame/frame.h"

namespace laconic {
namespace {

void put_text(std::string_view text, Buffer& out) {
  put_varint(text.size(), out);
  out.append(as_bytes(text));
}

}  // namespace

FrameWriter::FrameWriter(Buffer& out, const FrameHeader& header,
                         std::span<const Operator> operators)
    : out_(out), operators_(operators), start_(out.size()), position_(header.first) {
  out.append(as_bytes("LAC"));        // 1.1
  out.append_number(kDataVersion);    // 1.2
  put_varint(0, out);                 // 1.3 no extension fields
  put_varint(operators.size(), out);  // 1.4
  for (const Operator& op : operators) put_text(op.spec(), out);
  out.append_number(header.seed);                              // 1.5
  put_varint(header.step, out);                                // 1.6
  put_varint(header.rank, out);                                // 1.7
  out.append_number(static_cast<std::uint8_t>(header.dtype));  // 1.8
  put_varint(header.shape.size(), out);                        // 1.9
  for (const std::uint64_t extent : header.shape) put_varint(extent, out);
  put_varint(header.first, out);  // 1.10
}

bool FrameWriter::add(std::span<const float> x, std::size_t operator_index, const Keys& keys,
                      Scratch& scratch, std::string_view name) {
  last_ = out_.size();
  const bool finite = operators_[operator_index].encode(x, out_, keys.at(position_), scratch);
  if (!finite) out_.append({reinterpret_cast<const std::uint8_t*>(x.data()), x.size_bytes()});
  const std::size_t size = out_.size() - last_;
  put_text(name, table_);                                      // 3.1
  put_varint(x.size(), table_);                                // 3.2
  put_varint(operator_index << 1 | (finite ? 0 : 1), table_);  // 3.3
  put_varint(size, table_);                                    // 3.4
  ++sections_;
  payload_ += size;
  position_ += x.size();
  return finite;
}

std::size_t FrameWriter::finish() {
  const std::size_t table = out_.size();
  put_varint(sections_, out_);  // 3
  out_.append(table_.view());
  out_.append_number(static_cast<std::uint32_t>(out_.size() - table));  // 4.1
  out_.append_number(crc32c(out_.view(start_)));                        // 4.2
  return payload_;
}

}  // namespace laconic
