// Blocks of floats out of several arrays and types, and back.
#include "laconic/kernels/floats.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "laconic/base/errors.h"
#include "laconic/kernels/half.h"
#include "laconic/kernels/rounded.h"

namespace laconic {
namespace {

bool is_float32(const Piece& piece) { return !piece.exponents && piece.dtype == Dtype::float32; }

std::uint8_t* at(const Piece& piece, std::size_t offset) {
  return static_cast<std::uint8_t*>(piece.data) + offset * dtype_size(piece.dtype);
}

void read_bytes(const Piece& piece, std::size_t offset, std::size_t count, float* to) {
  const std::size_t inside = piece.inside + offset;
  kernels::bytes_to_floats(static_cast<const std::int8_t*>(piece.data) + offset,
                           piece.exponents + inside / kernels::kRounded, inside % kernels::kRounded,
                           {to, count});
}

void read(const Piece& piece, std::size_t offset, std::size_t count, float* to) {
  if (piece.exponents) return read_bytes(piece, offset, count, to);
  const std::uint8_t* from = at(piece, offset);
  if (piece.dtype == Dtype::float32)
    std::memcpy(to, from, count * sizeof(float));
  else if (piece.dtype == Dtype::bfloat16)
    kernels::bf16_to_floats(from, {to, count});
  else
    kernels::fp16_to_floats(from, {to, count});
}

void write(const Piece& piece, std::size_t offset, std::size_t count, const float* from) {
  std::uint8_t* to = at(piece, offset);
  if (piece.dtype == Dtype::float32)
    std::memcpy(to, from, count * sizeof(float));
  else if (piece.dtype == Dtype::bfloat16)
    kernels::floats_to_bf16({from, count}, to);
  else
    kernels::floats_to_fp16({from, count}, to);
}

}  // namespace

Floats::Floats(std::span<const float> x)
    : Floats(std::span(const_cast<float*>(x.data()), x.size())) {}

Floats::Floats(std::span<const Piece> pieces) : many_(pieces) {
  for (const Piece& piece : pieces) {
    if (piece.dtype == Dtype::float64)
      throw UsageError("an array of float64; allowed: float32, bfloat16, float16");
    size_ += piece.count;
  }
}

float* Floats::array() const {
  const auto all = pieces();
  return all.size() == 1 && is_float32(all[0]) ? static_cast<float*>(all[0].data) : nullptr;
}

// Calls use(piece, offset in it, entries done, entries) for the part of every piece that counts.
template <class Use>
void Floats::each(std::size_t from, std::size_t count, Use use) const {
  std::size_t done = 0;
  for (const Piece& piece : pieces()) {
    if (from >= piece.count) {
      from -= piece.count;
      continue;
    }
    const std::size_t part = std::min(piece.count - from, count - done);
    use(piece, from, done, part);
    done += part;
    from = 0;
    if (done == count) return;
  }
}

float* Floats::place(std::size_t from, std::size_t count, float* buffer) const {
  float* found = buffer;
  each(from, count, [&](const Piece& piece, std::size_t offset, std::size_t, std::size_t part) {
    if (part == count && is_float32(piece)) found = static_cast<float*>(piece.data) + offset;
  });
  return found;
}

const float* Floats::load(std::size_t from, std::size_t count, float* buffer) const {
  float* found = place(from, count, buffer);
  if (found == buffer)
    each(from, count,
         [&](const Piece& piece, std::size_t offset, std::size_t done, std::size_t part) {
           read(piece, offset, part, buffer + done);
         });
  return found;
}

void Floats::store(std::size_t from, std::size_t count, const float* values) const {
  each(from, count,
       [&](const Piece& piece, std::size_t offset, std::size_t done, std::size_t part) {
         if (at(piece, offset) != reinterpret_cast<const std::uint8_t*>(values + done))
           write(piece, offset, part, values + done);
       });
}

void Floats::scatter(std::span<const std::uint32_t> positions, const float* values) const {
  std::size_t j = 0, start = 0;
  for (const Piece& piece : pieces()) {
    const std::size_t end = start + piece.count;
    if (piece.dtype == Dtype::float32)
      for (float* to = static_cast<float*>(piece.data); j < positions.size() && positions[j] < end;
           ++j)
        to[positions[j] - start] = values[j];
    else
      for (; j < positions.size() && positions[j] < end; ++j)
        write(piece, positions[j] - start, 1, values + j);
    start = end;
  }
}

}  // namespace laconic
