// Writing frames. The numbers in comments are those of docs/frame.md.
#include "laconic/base/errors.h"
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

void FrameWriter::begin(Buffer& out, const FrameHeader& header,
                        std::span<const Operator> operators) {
  if (header.ranks > 0 && header.rank >= header.ranks)
    throw UsageError("a frame of rank " + std::to_string(header.rank) + " of " +
                     std::to_string(header.ranks));
  out_ = &out;
  operators_ = operators;
  start_ = last_ = out.size();
  sections_ = payload_ = 0;
  end_ = 0;
  count_ = header.count();
  table_.clear();
  out.append(as_bytes("LAC"));        // 1.1
  out.append_number(kDataVersion);    // 1.2
  put_varint(0, out);                 // 1.3 no extension fields
  put_varint(operators.size(), out);  // 1.4
  for (const Operator& op : operators) put_text(op.spec(), out);
  out.append_number(header.seed);                              // 1.5
  put_varint(header.step, out);                                // 1.6
  put_varint(header.rank, out);                                // 1.7
  put_varint(header.ranks, out);                               // 1.8
  out.append_number(static_cast<std::uint8_t>(header.dtype));  // 1.9
  put_varint(header.shape.size(), out);                        // 1.10
  for (const std::uint64_t extent : header.shape) put_varint(extent, out);
}

bool FrameWriter::add(std::uint64_t first, std::span<const float> x, std::size_t operator_index,
                      const Keys& keys, Scratch& scratch, std::string_view name, std::size_t cols) {
  const auto encode = [&](Buffer& out) {
    const bool finite = operators_[operator_index]
                            .encode(Source{.fresh = x, .cols = cols}, out, keys.at(first), scratch)
                            .finite;
    if (!finite) out.append({reinterpret_cast<const std::uint8_t*>(x.data()), x.size_bytes()});
    return finite;
  };
  return add_section(first, x.size(), operator_index, encode, name);
}

void FrameWriter::rest(std::uint64_t first, std::size_t count, std::size_t operator_index,
                       std::string_view name) {
  require_place(first, count, operator_index);
  last_ = out_->size();
  note(first, count, operator_index, SectionState::rests, name);
}

// What a reader would refuse is not written.
void FrameWriter::require_place(std::uint64_t first, std::size_t count,
                                std::size_t operator_index) const {
  if (operator_index >= operators_.size())
    throw UsageError("a section names operator " + std::to_string(operator_index) + " of " +
                     std::to_string(operators_.size()));
  if (first < end_)
    throw UsageError("a section begins at entry " + std::to_string(first) +
                     ", and the one before ends at " + std::to_string(end_));
  if (first > count_ || count > count_ - first)
    throw UsageError("a section of " + std::to_string(count) + " entries begins at " +
                     std::to_string(first) + " of " + std::to_string(count_));
}

void FrameWriter::note(std::uint64_t first, std::size_t count, std::size_t operator_index,
                       SectionState state, std::string_view name) {
  const std::size_t size = out_->size() - last_;
  put_text(name, table_);                                                     // 3.1
  put_varint(first - end_, table_);                                           // 3.2
  put_varint(count, table_);                                                  // 3.3
  put_varint(operator_index << 2 | static_cast<std::size_t>(state), table_);  // 3.4
  put_varint(size, table_);                                                   // 3.5
  ++sections_;
  payload_ += size;
  end_ = first + count;
}

std::size_t FrameWriter::finish() {
  const std::size_t table = out_->size();
  put_varint(sections_, *out_);  // 3
  out_->append(table_.view());
  out_->append_number(static_cast<std::uint32_t>(out_->size() - table));  // 4.1
  out_->append_number(crc32c(out_->view(start_)));                        // 4.2
  return payload_;
}

}  // namespace laconic
