// bucket: the quantiser behind it works on so many entries at a time, each bucket with its own
// norm. Alistarh et al., QSGD, section 4: buckets of 512 bound the variance by sqrt(512) / levels
// whatever the model's size.
//
// Planes of all buckets are joined: first all norms, then all symbols, so a coder sees one plane of
// each kind.
#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/kernels/stream.h"
#include "laconic/operators/block_quantiser.h"
#include "laconic/operators/bucketed.h"
#include "laconic/operators/sweeps.h"

namespace laconic {
namespace {

template <class Base>
class Bucketed : public Base {
 public:
  Bucketed(std::shared_ptr<const Quantiser> inner, std::size_t size)
      : inner_(std::move(inner)), size_(size), full_(inner_->planes(size)) {
    for (std::size_t i = 0; i < full_.count; ++i)
      if (full_.shape[i].width * full_.shape[i].count % 8 != 0)
        throw UsageError("bucket: " + std::to_string(size) + " entries of " +
                         std::to_string(full_.shape[i].width) +
                         " bits do not end on a byte; allowed here: multiples of 8");
  }

  PlaneShapes planes(std::size_t count) const override {
    PlaneShapes shapes = inner_->planes(count % size_);
    for (std::size_t i = 0; i < shapes.count; ++i)
      shapes.shape[i].count += count / size_ * full_.shape[i].count;
    return shapes;
  }

  void check(const PlaneViews& planes, std::size_t count) const override {
    in_buckets(0, count, planes, [&](std::size_t, std::size_t count, const PlaneViews& part) {
      inner_->check(part, count);
    });
  }

  void add(const PlaneViews& planes, std::size_t from, float weight,
           std::span<float> y) const override {
    in_blocks(from, from + y.size(), size_,
              [&](std::size_t bucket, std::size_t begin, std::size_t count) {
                inner_->add(planes_of(bucket, planes), begin - bucket * size_, weight,
                            y.subspan(begin - from, count));
              });
  }

  Traits traits(std::size_t count) const override { return inner_->traits(std::min(count, size_)); }

 protected:
  // Calls use(begin, count, planes) for every bucket of the `count` entries from `from` on, where a
  // bucket begins.
  template <class Planes, class Use>
  void in_buckets(std::size_t from, std::size_t count, const Planes& planes, Use use) const {
    for (std::size_t begin = from; begin < from + count; begin += size_)
      use(begin, std::min(size_, from + count - begin), planes_of(begin / size_, planes));
  }

  std::shared_ptr<const Quantiser> inner_;
  std::size_t size_;

 private:
  template <class Planes>
  Planes planes_of(std::size_t bucket, const Planes& planes) const {
    Planes mine{};
    for (std::size_t i = 0; i < full_.count; ++i) {
      const std::size_t size = full_.shape[i].size();
      mine[i] = planes[i].subspan(bucket * size);
      mine[i] = mine[i].first(std::min(size, mine[i].size()));
    }
    return mine;
  }

  PlaneShapes full_;
};

// Any quantiser, any size.
class AnyBuckets : public Bucketed<Quantiser> {
 public:
  using Bucketed::Bucketed;

  bool encode(std::span<const float> x, const PlaneSpans& planes, const Keys& keys,
              StageScratch& scratch) const override {
    bool finite = true;
    in_buckets(0, x.size(), planes,
               [&](std::size_t from, std::size_t count, const PlaneSpans& part) {
                 finite = finite && inner_->encode(x.subspan(from, count), part,
                                                   keys.at(keys.first + from), scratch);
               });
    return finite;
  }
};

// Buckets that fill blocks: these can be encoded one by one.
class BlockBuckets : public Bucketed<BlockQuantiser> {
 public:
  using Bucketed::Bucketed;

  bool encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    const SweepQuantiser& inner = *inner_->sweeping();
    bool finite = true;
    in_buckets(from, x.size(), planes,
               [&](std::size_t begin, std::size_t count, const PlaneSpans& part) {
                 finite = finite && inner.encode_few(x.subspan(begin - from, count), part,
                                                     keys.at(keys.first + begin));
               });
    return finite;
  }

  // Bucket by bucket, mixed anew for each of its two passes: that takes less than to keep what was
  // mixed in the first-level cache beside two arrays. The smallest cost more each than in bytes,
  // and are mixed and left together.
  bool encode_mixed(const kernels::Mixed& block, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    constexpr std::size_t kMixedAlone = 128;
    if (size_ < kMixedAlone) return Bucketed::encode_mixed(block, from, planes, keys);
    // What is left of smaller ones is gathered first: each would end within a line.
    constexpr std::size_t kStreamedAlone = 512;
    const SweepQuantiser& inner = *inner_->sweeping();
    float left[kBlock];
    kernels::Mixed mixed = block;
    const bool gathers = block.streams && size_ < kStreamedAlone;
    if (gathers) mixed.left = left, mixed.streams = false;
    bool finite = true;
    in_buckets(from, block.count, planes,
               [&](std::size_t begin, std::size_t count, const PlaneSpans& part) {
                 const kernels::Mixed some = mixed.part(begin - from, count);
                 finite = finite && inner.encode_few_mixed(some, part, keys.at(keys.first + begin));
               });
    if (gathers) kernels::stream_on(left, block.count, block.left);
    return finite;
  }
};

// The same of a quantiser that knows no norm.
class BlockBucketsOfBlocks : public Bucketed<BlockQuantiser> {
 public:
  using Bucketed::Bucketed;

  bool encode_block(std::span<const float> x, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    bool finite = true;
    in_buckets(from, x.size(), planes,
               [&](std::size_t begin, std::size_t count, const PlaneSpans& part) {
                 finite = finite && inner().encode_block(x.subspan(begin - from, count), 0, part,
                                                         keys.at(keys.first + begin));
               });
    return finite;
  }

  bool encode_mixed(const kernels::Mixed& block, std::size_t from, const PlaneSpans& planes,
                    const Keys& keys) const override {
    bool finite = true;
    in_buckets(from, block.count, planes,
               [&](std::size_t begin, std::size_t count, const PlaneSpans& part) {
                 finite = finite && inner().encode_mixed(block.part(begin - from, count), 0, part,
                                                         keys.at(keys.first + begin));
               });
    return finite;
  }

 private:
  const BlockQuantiser& inner() const { return *inner_->blockwise(); }
};

const RegisterStage bucket{{
    .name = "bucket",
    .role = Role::bucket,
    .summary = "Gives the quantiser behind it so many entries at a time, each with its own norm.",
    .paper = "Alistarh et al., QSGD (arXiv 1610.02132), section 4",
    .parameters = {{.name = "size",
                    .fallback = "512",
                    .min = 8,
                    .max = 1 << 30,
                    .whole = true,
                    .help = "entries in a bucket"}},
    .bits = "the quantiser's, for each of the ceil(n / size) buckets",
    .examples = {"bucket+qsgd:4,max", "bucket:128+terngrad", "bucket:64+sign",
                 "topk:0.1+bucket:64+dithering:4", "bucket:4096+natural+entropy"},
    .make = [](const Args& args) -> Stage {
      return Bucket{static_cast<std::size_t>(args.whole("size"))};
    },
}};

}  // namespace

std::shared_ptr<const Quantiser> bucketed(std::shared_ptr<const Quantiser> inner,
                                          std::size_t size) {
  if (kBlock % size == 0 && inner->sweeping())
    return std::make_shared<BlockBuckets>(std::move(inner), size);
  if (kBlock % size == 0 && inner->blockwise())
    return std::make_shared<BlockBucketsOfBlocks>(std::move(inner), size);
  return std::make_shared<AnyBuckets>(std::move(inner), size);
}

}  // namespace laconic
