// Opening sections, and adding them stretch by stretch.
#include "laconic/operators/decoder.h"

#include "laconic/base/errors.h"
#include "laconic/codecs/marks.h"
#include "laconic/kernels/axpy.h"
#include "laconic/kernels/float_bytes.h"
#include "laconic/kernels/marks.h"
#include "laconic/kernels/stream.h"
#include "laconic/operators/chain.h"
#include "laconic/operators/coded_quantiser.h"
#include "laconic/operators/marked.h"
#include "laconic/operators/planes.h"

namespace laconic {
namespace {

constexpr std::size_t kAhead = 64;  // entries asked for before their turn: they lie far apart

}  // namespace

void Decoder::reset(std::size_t count) {
  count_ = count;
  quantiser_.reset();
  planes_ = {};
  sparse_ = false;
  all_ = false;
  marked_ = false;
  positions_.clear();
}

void Decoder::index_positions() {
  const auto first = first_.reset((count_ + kBlock - 1) / kBlock + 1);
  const std::uint32_t *at = positions_.data(), *end = at + positions_.size();
  for (std::size_t block = 0; block < first.size(); ++block) {
    // No more than a block's worth of positions lie in the block before.
    const auto most = std::min<std::ptrdiff_t>(kBlock, end - at);
    at = std::lower_bound(at, at + most, block * kBlock);
    first[block] = static_cast<std::uint32_t>(at - positions_.data());
  }
}

// Of the entries that were chosen.
void Decoder::take_values() {
  const std::size_t chosen = marked_ ? first_.view().back() : positions_.size();
  const auto values = values_.reset(chosen + kernels::kSpareValues).first(chosen);
  for (std::size_t from = 0; from < chosen; from += kBlock) {
    const auto some = values.subspan(from, std::min(kBlock, chosen - from));
    std::ranges::fill(some, 0.0F);
    quantiser_->add(planes_, from, 1, some);
  }
}

std::vector<std::uint32_t> Decoder::positions() const {
  const auto listed = positions_.view();
  std::vector<std::uint32_t> all(listed.begin(), listed.end());
  for (std::uint32_t i = 0; (marked_ || all_) && i < count_; ++i)
    if (all_ || (marks_[i / 64] >> i % 64 & 1)) all.push_back(i);
  return all;
}

std::size_t Decoder::first_at(std::size_t position) const {
  if (position >= count_) return positions_.size();
  const std::size_t block = position / kBlock;
  if (position % kBlock == 0) return first_[block];
  const auto inside = positions_.view().subspan(first_[block], first_[block + 1] - first_[block]);
  return first_[block] +
         static_cast<std::size_t>(std::ranges::lower_bound(inside, position) - inside.begin());
}

void Decoder::add_chosen(std::size_t first, std::size_t end, std::size_t from, float weight,
                         float* y) const {
  const std::uint32_t* positions = positions_.data();
  const float* values = values_.data();
  if (first < end && positions[end - 1] - positions[first] == end - 1 - first)
    return kernels::add_scaled(values + first, weight,
                               {y + (positions[first] - from), end - first});
  const std::size_t near = end - std::min(end - first, kAhead);
  std::size_t i = first;
  for (; i < near; ++i) {
    kernels::fetch(y + (positions[i + kAhead] - from));
    y[positions[i] - from] += weight * values[i];
  }
  for (; i < end; ++i) y[positions[i] - from] += weight * values[i];
}

// From the first entry of a block on.
void Decoder::add_marked(std::size_t from, std::size_t to, float weight, float* y) const {
  for (std::size_t begin = from; begin < to; begin += kBlock) {
    const std::size_t end = std::min(to, begin + kBlock);
    kernels::add_marked(marks_.data() + begin / 64, values_.data() + first_[begin / kBlock], weight,
                        {y + (begin - from), end - begin});
  }
}

void Decoder::add(std::size_t from, std::size_t to, float weight, float* y) const {
  if (from >= to) return;
  if (all_) {
    quantiser_->add(planes_, from, weight, {y, to - from});
  } else if (marked_) {
    add_marked(from, to, weight, y);
  } else if (sparse_) {
    add_chosen(first_at(from), first_at(to), from, weight, y);
  } else if (quantiser_) {
    quantiser_->add(planes_, from, weight, {y, to - from});
  } else if (!planes_[0].empty()) {
    kernels::add_floats(planes_[0].data() + from * sizeof(float), weight, {y, to - from});
  }
}

void sum_of(std::span<const Decoder* const> sections, std::size_t from, std::size_t to,
            float weight, float* y) {
  const auto alike = [&](const Decoder* section) {
    return !section->sparse_ && section->quantiser_ == sections[0]->quantiser_;
  };
  const std::span<float> out(y, to - from);
  if (from >= to) return;
  if (!sections.empty() && sections[0]->quantiser_ && sections.size() <= kMostSummed &&
      std::ranges::all_of(sections, alike)) {
    const PlaneViews* planes[kMostSummed];
    std::ranges::transform(sections, planes, [](const Decoder* s) { return &s->planes_; });
    sections[0]->quantiser_->sum({planes, sections.size()}, from, weight, out);
    return;
  }
  std::ranges::fill(out, 0.0F);
  for (const Decoder* section : sections) section->add(from, to, weight, y);
}

void open_plain(ByteView floats, Decoder& into) {
  into.reset(floats.size() / sizeof(float));
  into.planes_[0] = floats;
}

void open_zeros(std::size_t count, Decoder& into) { into.reset(count); }

void Operator::refuse_size(std::size_t count, std::size_t size) const {
  throw DataError("a section of " + std::to_string(count) + " entries by '" + spec() + "' has " +
                  std::to_string(size) + " bytes, which cannot be");
}

// The planes of `count` > 0 entries, checked. They lie in the section itself or, after a coder, in
// `memory`.
PlaneViews Operator::read_planes(ByteView section, std::size_t count, const Keys& keys,
                                 Scratch& scratch, Buffer& memory) const {
  const auto shapes = chain_->quantiser->planes(count);
  if (const CodedQuantiser* coded = chain_->quantiser->coded()) {
    if (section.size() < coded->min_size(count)) refuse_size(count, section.size());
    const auto read = place(shapes, memory);
    coded->read(section, count, keys, read, scratch);
    return views(read);
  }
  PlaneViews planes;
  if (chain_->coder) {
    if (section.size() < chain_->coder->min_size(shapes)) refuse_size(count, section.size());
    const auto decoded = place(shapes, memory);
    chain_->coder->decode(section, shapes, decoded, scratch);
    planes = views(decoded);
  } else {
    if (section.size() != shapes.size()) refuse_size(count, section.size());
    planes = cut(section, shapes);
  }
  for (std::size_t i = 0; i < shapes.count; ++i)
    if (!planes[i].empty() &&
        !padding_is_zero(planes[i], shapes.shape[i].width, shapes.shape[i].count))
      throw DataError("a section by '" + spec() + "' has bits set after its last entry");
  chain_->quantiser->check(planes, count);
  return planes;
}

// As open, without the index that stretches need, and without the values behind a selector.
void Operator::fill(ByteView section, std::size_t count, const Keys& keys, Scratch& scratch,
                    Decoder& into) const {
  if ((count == 0 && !section.empty()) || (chain_->has_positions && count > kMostPositions))
    refuse_size(count, section.size());
  into.reset(count);
  if (count == 0) return;
  std::size_t chosen = count;
  if (chain_->selector) {
    // Memory for so many is taken at once, so that steps that keep more find it there.
    constexpr std::size_t kReserved = std::size_t{1} << 24;
    if (const std::size_t most = chain_->selector->most(count); most <= kReserved) {
      into.positions_.reset(most);
      into.values_.reset(most + kernels::kSpareValues);
      into.marks_.reset((count + 63) / 64 + kSpareMarks);
    }
    if (const auto marked = chain_->selector->read_marks(section, count, into.marks_)) {
      into.marked_ = true;
      section = marked->rest;
      chosen = marked->kept;
      into.positions_.clear();
    } else {
      section = chain_->selector->read(section, count, keys, into.positions_, scratch);
      chosen = into.positions_.size();
    }
    if (chosen == 0 && !section.empty()) refuse_size(count, section.size());
  }
  if (chosen > 0) into.planes_ = read_planes(section, chosen, keys, scratch, into.memory_);
  into.quantiser_ = chain_->quantiser;
  into.sparse_ = chain_->selector != nullptr;
  if (!into.sparse_) return;
  into.all_ = chosen == count;  // then positions say nothing
  if (into.all_) {
    into.marked_ = false;
    into.positions_.clear();
  }
  if (into.marked_) index_marks(into.marks_.view().first((count + 63) / 64), count, into.first_);
}

void Operator::open(ByteView section, std::size_t count, const Keys& keys, Scratch& scratch,
                    Decoder& into) const {
  fill(section, count, keys, scratch, into);
  if (!into.sparse_ || into.all_) return;
  into.take_values();
  if (!into.marked_) into.index_positions();
}

void Operator::check(ByteView section, std::size_t count, const Keys& keys,
                     Scratch& scratch) const {
  fill(section, count, keys, scratch, scratch.decoder_);
}

void Operator::add(ByteView section, float weight, std::span<float> y, const Keys& keys,
                   Scratch& scratch) const {
  constexpr std::size_t kPiece = 16 * kBlock;  // entries one thread takes at a time
  Decoder& decoder = scratch.decoder_;
  fill(section, y.size(), keys, scratch, decoder);
  if (decoder.sparse_ && !decoder.all_ && !decoder.marked_) {
    decoder.take_values();
    const std::size_t chosen = decoder.positions_.size();
    scratch.pool.each((chosen + kPiece - 1) / kPiece, [&](std::size_t piece, unsigned) {
      decoder.add_chosen(piece * kPiece, std::min(chosen, (piece + 1) * kPiece), 0, weight,
                         y.data());
    });
    return;
  }
  scratch.pool.each((y.size() + kPiece - 1) / kPiece, [&](std::size_t piece, unsigned) {
    const std::size_t from = piece * kPiece, to = std::min(y.size(), from + kPiece);
    if (decoder.marked_)
      Marked{decoder.marks_.data(), decoder.first_.view(), *decoder.quantiser_, decoder.planes_}
          .add(from, to, weight, y.data() + from);
    else
      decoder.add(from, to, weight, y.data() + from);
  });
}

}  // namespace laconic
