// The entropy codec: chunks through zstd, each kept raw where coding would not shrink it.
#define ZSTD_STATIC_LINKING_ONLY  // for ZSTD_c_literalCompressionMode: a run-time parameter of the
                                  // shared library
#include "laconic/codecs/entropy.h"

#include <zstd.h>

#include <new>
#include <vector>

#include "laconic/base/errors.h"
#include "laconic/codecs/varint.h"

namespace laconic {
namespace {

constexpr std::size_t kChunk = 262144;

std::size_t chunks_of(std::size_t count) { return (count + kChunk - 1) / kChunk; }

void require(std::size_t result, const char* what) {
  if (ZSTD_isError(result))
    throw SystemError(std::string("zstd: ") + what + ": " + ZSTD_getErrorName(result));
}

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

std::unique_ptr<ZSTD_CCtx, FreeContext> make_compressor() {
  std::unique_ptr<ZSTD_CCtx, FreeContext> c(ZSTD_createCCtx());
  if (!c) throw std::bad_alloc();
  const auto set = [&](ZSTD_cParameter parameter, int value) {
    require(ZSTD_CCtx_setParameter(c.get(), parameter, value), "setting a parameter");
  };
  set(ZSTD_c_compressionLevel,
      ZSTD_minCLevel());  // looks for a match once in 131072 bytes: matches only cost here
  set(ZSTD_c_literalCompressionMode, ZSTD_ps_enable);
  set(ZSTD_c_contentSizeFlag, 0);
  set(ZSTD_c_checksumFlag, 0);
  set(ZSTD_c_dictIDFlag, 0);
  set(ZSTD_c_format, ZSTD_f_zstd1_magicless);
  return c;
}

std::unique_ptr<ZSTD_DCtx, FreeContext> make_decompressor() {
  std::unique_ptr<ZSTD_DCtx, FreeContext> d(ZSTD_createDCtx());
  if (!d) throw std::bad_alloc();
  const auto set = [&](ZSTD_dParameter parameter, int value) {
    require(ZSTD_DCtx_setParameter(d.get(), parameter, value), "setting a parameter");
  };
  set(ZSTD_d_format, ZSTD_f_zstd1_magicless);
  set(ZSTD_d_windowLogMax, 23);
  set(ZSTD_d_stableOutBuffer,
      1);  // decodes in place: no window is allocated, whatever the frame asks for
  return d;
}

// Exactly one zstd frame, all of `from`, into all of `to`.
bool decompress(ZSTD_DCtx* context, ByteView from, std::span<std::uint8_t> to) {
  ZSTD_DCtx_reset(context, ZSTD_reset_session_only);
  ZSTD_inBuffer in{from.data(), from.size(), 0};
  ZSTD_outBuffer out{to.data(), to.size(), 0};
  const std::size_t left = ZSTD_decompressStream(context, &out, &in);
  return left == 0 && in.pos == in.size && out.pos == out.size;
}

}  // namespace

struct Entropy::Contexts {
  std::vector<std::unique_ptr<ZSTD_CCtx, FreeContext>> compressors;
  std::vector<std::unique_ptr<ZSTD_DCtx, FreeContext>> decompressors;
  std::vector<std::size_t> sizes;
  std::vector<ByteView> coded;
  Buffer staging;
};

Entropy::Entropy() : contexts_(std::make_unique<Contexts>()) {}
Entropy::~Entropy() = default;

// A chunk takes its length and at least one byte.
std::size_t Entropy::min_size(std::size_t count) {
  return 2 * (count / kChunk) + (count % kChunk ? 2 : 0);
}

std::size_t Entropy::max_size(std::size_t count) {
  return count + chunks_of(count) * varint_size(kChunk);
}

void Entropy::encode(ByteView bytes, Buffer& out, Pool& pool) {
  Contexts& c = *contexts_;
  while (c.compressors.size() < pool.threads()) c.compressors.push_back(make_compressor());
  c.sizes.resize(chunks_of(bytes.size()));
  // A chunk is worth coding only below its own length, so that much room is enough; zstd says when
  // it is not.
  const auto staging = c.staging.reset(bytes.size());
  pool.each(c.sizes.size(), [&](std::size_t chunk, unsigned thread) {
    const ByteView raw =
        bytes.subspan(chunk * kChunk, std::min(kChunk, bytes.size() - chunk * kChunk));
    const std::size_t size =
        ZSTD_compress2(c.compressors[thread].get(), staging.data() + chunk * kChunk, raw.size() - 1,
                       raw.data(), raw.size());
    c.sizes[chunk] = ZSTD_isError(size) ? raw.size() : size;
  });
  for (std::size_t chunk = 0; chunk < c.sizes.size(); ++chunk) {
    const std::size_t from = chunk * kChunk, raw = std::min(kChunk, bytes.size() - from);
    put_varint(c.sizes[chunk], out);
    out.append(c.sizes[chunk] == raw ? bytes.subspan(from, raw)
                                     : ByteView(staging).subspan(from, c.sizes[chunk]));
  }
}

ByteView Entropy::decode(ByteView coded, std::span<std::uint8_t> bytes, Pool& pool) {
  Contexts& c = *contexts_;
  while (c.decompressors.size() < pool.threads()) c.decompressors.push_back(make_decompressor());
  ByteReader in(coded);
  c.coded.clear();
  for (std::size_t from = 0; from < bytes.size(); from += kChunk) {
    const std::size_t raw = std::min(kChunk, bytes.size() - from);
    const std::uint64_t size = in.varint("an entropy-coded chunk's length");
    if (size > raw)
      throw DataError("an entropy-coded chunk of " + std::to_string(raw) + " symbols claims " +
                      std::to_string(size) + " bytes");
    c.coded.push_back(in.take(size, "an entropy-coded chunk"));
  }
  pool.each(c.coded.size(), [&](std::size_t chunk, unsigned thread) {
    const auto to = bytes.subspan(chunk * kChunk, std::min(kChunk, bytes.size() - chunk * kChunk));
    const ByteView from = c.coded[chunk];
    if (from.size() == to.size()) {
      std::memcpy(to.data(), from.data(), to.size());
      return;
    }
    if (!decompress(c.decompressors[thread].get(), from, to))
      throw DataError("an entropy-coded chunk is damaged");
  });
  return in.rest();
}

}  // namespace laconic
