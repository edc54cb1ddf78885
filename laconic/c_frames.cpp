// The C ABI: frames.
#include "laconic/c_guard.h"

using namespace laconic;
using namespace laconic::c;

static_assert(LACONIC_FLOAT32 == static_cast<int>(Dtype::float32));
static_assert(LACONIC_FLOAT16 == static_cast<int>(Dtype::float16));
static_assert(LACONIC_FLOAT64 == static_cast<int>(Dtype::float64));
static_assert(LACONIC_BFLOAT16 == static_cast<int>(Dtype::bfloat16));

struct laconic_frame {
  Frame frame;
  std::string spec;
  std::vector<std::string> names;  // of the sections, each with the zero byte that C wants
};

namespace {

FrameHeader header_of(const laconic_header* given, std::size_t count) {
  FrameHeader header;
  header.shape = {count};
  if (!given) return header;
  const laconic_header from = read_struct(given, "header");
  header.seed = from.seed;
  header.step = from.step;
  header.rank = from.rank;
  header.ranks = from.ranks;
  if (from.dtype < LACONIC_FLOAT32 || from.dtype > LACONIC_BFLOAT16)
    throw UsageError("'header->dtype' is " + std::to_string(from.dtype) + "; allowed: 0 to 3");
  header.dtype = static_cast<Dtype>(from.dtype);
  if (!from.shape) return header;
  header.shape = shape_of(from.shape, from.ndim, "header->shape");
  if (header.count() != count)
    throw UsageError("'header->shape' has " + std::to_string(header.count()) +
                     " entries for an array of " + std::to_string(count));
  return header;
}

laconic_frame frame_of(ByteView bytes, std::uint64_t max_count) {
  FrameLimits limits;
  if (max_count > 0) limits.max_count = std::min(max_count, kMostEntries);
  laconic_frame result{read_frame(bytes, limits), {}, {}};
  result.spec = result.frame.spec();
  for (const Section& section : result.frame.sections) result.names.emplace_back(section.name);
  return result;
}

}  // namespace

laconic_status laconic_frame_max_size(const laconic_operator* op, size_t count, size_t ndim,
                                      size_t* size) {
  return guard([&] {
    constexpr std::size_t kLongestNumber = 10, kOthers = 128;  // docs/frame.md: all but these
    const Operator& known = need(op, "op").op;
    const std::size_t plain = need_count(count) * sizeof(float);  // what is not finite
    need(size, "size") = std::max(known.max_size(count), plain) + known.spec().size() +
                         kLongestNumber * need_count(ndim) + kOthers;
  });
}

laconic_status laconic_frame_write(const laconic_operator* op, const float* x, size_t count,
                                   const laconic_header* header, void* buffer, size_t capacity,
                                   size_t* size, int* finite, laconic_scratch* scratch) {
  return guard([&] {
    const auto values = array(x, count, "x");
    const FrameHeader head = header_of(header, count);
    if (capacity > 0) need(static_cast<char*>(buffer), "buffer");
    need(size, "size");
    Buffer& out = need(scratch, "scratch").out;
    out.clear();
    FrameWriter frame(out, head, std::span(&need(op, "op").op, 1));
    need(finite, "finite") = frame.add(0, values, 0, head.keys(), scratch->scratch);
    frame.finish();
    deliver(out.view(), buffer, capacity, *size);
  });
}

laconic_status laconic_frame_read(const void* bytes, size_t size, uint64_t max_count,
                                  laconic_frame** frame) {
  return create(frame, "frame", [&] { return frame_of(view(bytes, size), max_count); });
}

void laconic_frame_free(laconic_frame* frame) { delete frame; }

laconic_status laconic_frame_describe(const laconic_frame* frame, laconic_frame_info* info) {
  return guard([&] {
    const Frame& from = need(frame, "frame").frame;
    const FrameHeader& header = from.header;
    write_struct({.struct_size = 0,
                  .spec = frame->spec.c_str(),
                  .count = header.count(),
                  .ndim = header.shape.size(),
                  .shape = header.shape.data(),
                  .dtype = static_cast<int>(header.dtype),
                  .finite = from.finite(),
                  .complete = from.covers_all(),
                  .first = from.sections.empty() ? 0 : from.sections[0].first,
                  .seed = header.seed,
                  .step = header.step,
                  .rank = header.rank,
                  .payload_bytes = from.payload_bytes,
                  .wire_bytes = from.wire_bytes,
                  .section_count = from.sections.size(),
                  .ranks = header.ranks,
                  .crc = from.crc},
                 info, "info");
  });
}

laconic_status laconic_frame_section(const laconic_frame* frame, size_t i,
                                     laconic_section* section) {
  return guard([&] {
    const Frame& from = need(frame, "frame").frame;
    if (i >= from.sections.size())
      throw UsageError("no section " + std::to_string(i) + " of " +
                       std::to_string(from.sections.size()));
    const Section& at = from.sections[i];
    write_struct({.struct_size = 0,
                  .name = frame->names[i].c_str(),
                  .op = from.operators[at.operator_index].spec().c_str(),
                  .first = at.first,
                  .count = at.count,
                  .bytes = at.bytes.data(),
                  .size = at.bytes.size(),
                  .finite = at.finite(),
                  .rests = at.rests()},
                 section, "section");
  });
}

laconic_status laconic_frame_check(const laconic_frame* frame, laconic_scratch* scratch) {
  return guard(
      [&] { check_sections(need(frame, "frame").frame, need(scratch, "scratch").scratch); });
}

laconic_status laconic_frame_add(const laconic_frame* frame, float weight, float* y, size_t count,
                                 laconic_scratch* scratch) {
  return guard([&] {
    const Frame& from = need(frame, "frame").frame;
    Scratch& work = need(scratch, "scratch").scratch;
    const auto values = array(y, count, "y");
    if (from.header.count() != count)
      throw UsageError("'y' has " + std::to_string(count) + " entries for a frame of " +
                       std::to_string(from.header.count()));
    if (from.sections.size() > 1)
      check_sections(from, work);  // one alone is checked as it is added
    for (const Section& at : from.sections)
      add_section(from, at, weight, values.subspan(static_cast<std::size_t>(at.first), at.count),
                  work);
  });
}
