// Encoding: the entries through the stages of the chain, and what is left of them.
#include <algorithm>
#include <limits>

#include "laconic/base/errors.h"
#include "laconic/kernels/axpy.h"
#include "laconic/kernels/reduce.h"
#include "laconic/kernels/select.h"
#include "laconic/operators/blocks.h"
#include "laconic/operators/chain.h"
#include "laconic/operators/planes.h"

namespace laconic {
namespace {

// Ends at the first entry that is something.
bool all_zero(const Floats& x) {
  float buffer[kBlock];
  for (std::size_t from = 0; from < x.size(); from += kBlock) {
    const std::size_t count = std::min(kBlock, x.size() - from);
    if (kernels::largest_magnitude({x.load(from, count, buffer), count}) > 0) return false;
  }
  return true;
}

// The entries as one array: where they lie, in what will be left, or in `memory`.
std::span<const float> materialise(const Source& source, Array<float>& memory, Pool& pool) {
  const std::size_t count = source.fresh.size();
  if (const float* x = source.as_it_lies()) return {x, count};
  float* to = source.left.array();
  if (!to) to = memory.reset(count).data();
  each_block(count, pool, [&](std::size_t from, std::size_t part) {
    const float* x = source.load(from, part, to + from);
    if (x != to + from) std::copy_n(x, part, to + from);
  });
  return {to, count};
}

// left = c * (x - decoded), block by block.
void leave_dense(std::span<const float> x, const Source& source, const Quantiser& quantiser,
                 const PlaneViews& planes, Pool& pool) {
  each_block(x.size(), pool, [&](std::size_t from, std::size_t count) {
    float decoded[kBlock], buffer[kBlock];
    std::fill_n(decoded, count, 0.0F);
    quantiser.add(planes, from, 1, {decoded, count});
    float* left = source.left.place(from, count, buffer);
    kernels::difference(source.c, x.data() + from, decoded, {left, count});
    source.left.store(from, count, left);
  });
}

// The same where all but a few entries are decoded as 0: `values` are those, and are used up.
void leave_sparse(std::span<const float> x, const Source& source,
                  std::span<const std::uint32_t> positions, std::span<float> values, Pool& pool) {
  for (std::size_t j = 0; j < values.size(); ++j)
    values[j] = source.c * (x[positions[j]] - values[j]);
  if (source.c != 1 || source.left.array() != x.data())
    each_block(x.size(), pool, [&](std::size_t from, std::size_t count) {
      float buffer[kBlock];
      float* left = source.left.place(from, count, buffer);
      kernels::scale(source.c, x.data() + from, {left, count});
      source.left.store(from, count, left);
    });
  source.left.scatter(positions, values.data());
}

}  // namespace

void Operator::require_few(std::size_t count) const {
  if (chain_->has_positions && count > kMostPositions)
    throw UsageError("'" + spec() + "' takes slices of up to " + std::to_string(kMostPositions) +
                     " entries, not " + std::to_string(count) + "; a layout can cut them");
}

// The entries as the quantiser will see them: scaled, chosen. x is finite.
std::span<const float> Operator::choose(std::span<const float> x, const Keys& keys,
                                        Scratch& scratch) const {
  if (chain_->shrink) {
    const auto scaled = scratch.scaled_.reset(x.size());
    kernels::scale(chain_->shrunk(x.size()), x.data(), scaled);
    x = scaled;
  }
  if (!chain_->selector) return x;
  scratch.kept_.clear();
  chain_->selector->select(x, keys, scratch.kept_, scratch);
  const float factor = chain_->selector->factor(x.size());
  const auto values = scratch.values_.reset(scratch.kept_.size());
  kernels::gather(x, scratch.kept_.view(), factor, values.data());
  constexpr float kMost = std::numeric_limits<float>::max();
  if (factor > 1)
    for (float& value : values) value = std::clamp(value, -kMost, kMost);
  return values;
}

// Appends the section of x; `planes` are what its quantiser made. Returns false when x holds NaN or
// Inf: something may have been appended then.
bool Operator::write(std::span<const float> x, Buffer& out, const Keys& keys, Scratch& scratch,
                     PlaneViews& planes) const {
  const std::size_t count = x.size();
  if (chain_->shrink || chain_->selector) {  // else the quantiser looks for itself
    if (!kernels::all_finite(x)) return false;
    x = choose(x, keys, scratch);
  }
  if (chain_->selector) chain_->selector->write(scratch.kept_.view(), count, out);
  const auto shapes = chain_->quantiser->planes(x.size());
  PlaneSpans spans;
  if (chain_->coder)
    spans = place(shapes, scratch.planes_);
  else
    spans = cut(std::span(out.grow(shapes.size()), shapes.size()), shapes);
  if (!chain_->quantiser->encode(x, spans, keys, scratch)) return false;
  planes = views(spans);
  if (chain_->coder) chain_->coder->encode(shapes, planes, out, scratch);
  return true;
}

void Operator::leave(std::span<const float> x, const Source& source, const PlaneViews& planes,
                     Scratch& scratch) const {
  if (!chain_->selector) {
    leave_dense(x, source, *chain_->quantiser, planes, scratch.pool);
    return;
  }
  const auto values = scratch.values_.span();
  std::ranges::fill(values, 0.0F);
  if (!values.empty()) chain_->quantiser->add(planes, 0, 1, values);
  leave_sparse(x, source, scratch.kept_.view(), values, scratch.pool);
}

Encoded Operator::encode(const Source& source, Buffer& out, const Keys& keys,
                         Scratch& scratch) const {
  source.require_sizes();
  require_few(source.fresh.size());
  if (source.fresh.empty()) return {};
  const std::size_t start = out.size();
  const auto x = materialise(source, scratch.mixed_, scratch.pool);
  PlaneViews planes;
  const Encoded result{.finite = write(x, out, keys, scratch, planes),
                       .zero = all_zero(source.fresh)};
  if (!result.finite)
    out.truncate(start);
  else if (!source.left.empty())
    leave(x, source, planes, scratch);
  return result;
}

bool Operator::encode(std::span<const float> x, Buffer& out, const Keys& keys,
                      Scratch& scratch) const {
  return encode(Source{.fresh = x}, out, keys, scratch).finite;
}

}  // namespace laconic
