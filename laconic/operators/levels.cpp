// levels: writes planes of levels in the code that their counts promise to be smallest, or in the
// one named; other planes as they are. What a quantiser of levels gets when no coder is named.
#include "laconic/codecs/levels.h"

#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/operators/packed_levels.h"
#include "laconic/operators/stage.h"

namespace laconic {
namespace {

std::vector<std::string> codec_names() {
  std::vector<std::string> names = {"auto"};
  for (const LevelCodec& codec : level_codecs()) names.push_back(codec.name);
  return names;
}

const LevelCodec* codec_named(const std::string& name) {
  const auto at = std::ranges::find(level_codecs(), name, &LevelCodec::name);
  return at == level_codecs().end() ? nullptr : &*at;
}

class LevelCoder : public Coder {
 public:
  explicit LevelCoder(const Args& args) : named_(codec_named(args.text("code"))) {}

  void require(const PlaneShapes& shapes) const override {
    if (!shapes.has_levels())
      throw UsageError(
          "levels: the quantiser before it gives no levels; allowed: quantisers such "
          "as qsgd, dithering, terngrad, grid");
    for (std::size_t i = 0; named_ && i < shapes.count; ++i)
      if (const auto most = shapes.shape[i].most; most > 0 && !named_->takes(most))
        throw UsageError("levels: code '" + named_->name + "' cannot write levels up to " +
                         std::to_string(most));
  }

  std::shared_ptr<const Quantiser> joined(
      const std::shared_ptr<const Quantiser>& quantiser) const override {
    if (!named_ || !named_->packed) return nullptr;
    const PlaneShapes shapes = quantiser->planes(1);
    const auto most = std::ranges::max(shapes.shape, {}, &PlaneShape::most).most;
    const unsigned bits = named_->packed(most);
    return bits > 0 ? packed_levels(quantiser, bits) : nullptr;
  }

  std::size_t min_size(const PlaneShapes& shapes) const override {
    return sum(shapes, [this](const PlaneShape& s) {
      if (named_) return named_->min_size(s.count, s.most);
      std::size_t least = ~std::size_t{0};
      for (const LevelCodec& codec : level_codecs())
        if (codec.takes(s.most)) least = std::min(least, codec.min_size(s.count, s.most));
      return 1 + least;
    });
  }

  // The code is chosen by counts, which may mislead: any may be as large as it can be.
  std::size_t max_size(const PlaneShapes& shapes) const override {
    return sum(shapes, [this](const PlaneShape& s) {
      if (named_) return named_->max_size(s.count, s.most);
      std::size_t most = 0;
      for (const LevelCodec& codec : level_codecs())
        if (codec.guess && codec.takes(s.most))
          most = std::max(most, codec.max_size(s.count, s.most));
      return 1 + most;
    });
  }

  void encode(const PlaneShapes& shapes, const PlaneViews& planes, Buffer& out,
              StageScratch& scratch) const override {
    for (std::size_t i = 0; i < shapes.count; ++i) {
      const PlaneShape& shape = shapes.shape[i];
      if (shape.wide) continue;
      if (shape.most == 0) {
        out.append(planes[i]);
      } else if (shape.count > 0) {
        const Levels levels{levels_of(planes, i), shape.count, shape.most};
        LevelWork work = work_of(scratch);
        if (named_) {
          named_->write(levels, out, work);
          continue;
        }
        const LevelCounts counts = count_levels(levels);
        work.counts = &counts;
        const LevelCodec& codec = choose_levels(counts);
        out.append_number(static_cast<std::uint8_t>(codec.tag));
        codec.write(levels, out, work);
      }
    }
  }

  void decode(ByteView section, const PlaneShapes& shapes, const PlaneSpans& planes,
              StageScratch& scratch) const override {
    for (std::size_t i = 0; i < shapes.count; ++i) {
      const PlaneShape& shape = shapes.shape[i];
      if (shape.wide) continue;
      if (shape.most == 0) {
        if (section.size() < planes[i].size()) throw DataError("a section of levels ends early");
        std::ranges::copy(section.first(planes[i].size()), planes[i].begin());
        section = section.subspan(planes[i].size());
      } else if (shape.count > 0) {
        const LevelCodec& codec = named_ ? *named_ : take_tag(section, shape);
        section =
            codec.read(section, {levels_of(planes, i), shape.count, shape.most}, work_of(scratch));
      }
    }
    if (!section.empty())
      throw DataError("a section of levels has " + std::to_string(section.size()) +
                      " bytes after its end");
  }

 private:
  static LevelWork work_of(StageScratch& scratch) {
    return {scratch.nonzero, scratch.entropy, scratch.pool};
  }

  static const LevelCodec& take_tag(ByteView& section, const PlaneShape& shape) {
    if (section.empty()) throw DataError("a section of levels ends early");
    const unsigned tag = section[0];
    section = section.subspan(1);
    for (const LevelCodec& codec : level_codecs())
      if (codec.tag == tag && codec.takes(shape.most)) return codec;
    throw DataError("a section has levels by code " + std::to_string(tag) +
                    ", which cannot be used here");
  }

  template <class Size>
  static std::size_t sum(const PlaneShapes& shapes, Size size) {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < shapes.count; ++i) {
      const PlaneShape& shape = shapes.shape[i];
      if (!shape.wide) sum += shape.most == 0 ? shape.size() : shape.count == 0 ? 0 : size(shape);
    }
    return sum;
  }

  const LevelCodec* named_;  // none: the smallest, said in the section
};

const RegisterStage levels{{
    .name = "levels",
    .role = Role::coder,
    .summary = "Writes a quantiser's whole numbers in the code that suits their counts, or in the "
               "one named.",
    .paper = "Alistarh et al., QSGD (arXiv 1610.02132), section 3, for Elias codes",
    .parameters = {{.name = "code",
                    .fallback = "auto",
                    .names = codec_names,
                    .help = "auto: by the counts of each slice"}},
    .bits = "8 + about the smallest level code; the named one without the 8",
    .examples = {"qsgd:4+levels:fixed", "qsgd:7+levels:elias", "terngrad+levels:trits",
                 "grid:0.125+levels:sparse", "grid:0.5+levels:fixed"},
    .make = [](const Args& args) -> Stage { return std::make_shared<LevelCoder>(args); },
}};

}  // namespace
}  // namespace laconic
