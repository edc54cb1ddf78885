// Chains: parsed from their spec, run stage by stage.
#include "laconic/operators/operator.h"

#include <algorithm>

#include "laconic/base/registry.h"
#include "laconic/kernels/reduce.h"

namespace laconic {
namespace {

Registry<StageInfo>& registry() {
  static Registry<StageInfo> stages("operator");
  return stages;
}

template <class Part, class Byte>
std::array<std::span<Byte>, kMostPlanes> cut(std::span<Byte> bytes, const Part& shapes) {
  std::array<std::span<Byte>, kMostPlanes> planes{};
  for (std::size_t i = 0, at = 0; i < shapes.count; at += shapes.shape[i++].size())
    planes[i] = bytes.subspan(at, shapes.shape[i].size());
  return planes;
}

PlaneViews views(const PlaneSpans& spans) {
  PlaneViews result;
  std::ranges::copy(spans, result.begin());
  return result;
}

[[noreturn]] void refuse_order(std::string_view spec, const StageInfo& before,
                               const StageInfo& after) {
  throw UsageError(std::string(spec) + ": '" + after.name + "' (a " +
                   std::string(role_name(after.role)) + ") cannot follow '" + before.name +
                   "' (a " + std::string(role_name(before.role)) +
                   "); allowed: at most one quantiser, then at most one coder");
}

}  // namespace

std::string_view role_name(Role role) { return role == Role::quantiser ? "quantiser" : "coder"; }

const std::vector<StageInfo>& stages() { return registry().all(); }

RegisterStage::RegisterStage(StageInfo info) { registry().add(std::move(info)); }

struct Operator::Chain {
  std::string spec;
  std::shared_ptr<const Quantiser> quantiser;
  std::shared_ptr<const Coder> coder;  // none: planes as they are
};

Operator parse_operator(std::string_view spec) {
  auto chain = std::make_shared<Operator::Chain>();
  const StageInfo* before = nullptr;
  for (const auto& text : split_chain(spec)) {
    const StageInfo& info = registry().at(text.name);
    if (before && info.role <= before->role) refuse_order(spec, *before, info);
    const Args args(info.name, info.parameters, text.args);
    const Stage stage = info.make(args);
    if (info.role == Role::quantiser) chain->quantiser = std::get<0>(stage);
    if (info.role == Role::coder) chain->coder = std::get<1>(stage);
    chain->spec += (before ? "+" : "") + args.canonical();
    before = &info;
  }
  if (!chain->quantiser) {
    const StageInfo& identity = registry().at("identity");
    chain->quantiser = std::get<0>(identity.make(Args(identity.name, identity.parameters, "")));
  }
  return Operator(chain);
}

std::size_t Operator::max_size(std::size_t count) const {
  const auto shapes = chain_->quantiser->planes(count);
  return chain_->coder ? chain_->coder->max_size(shapes) : shapes.size();
}

bool Operator::encode(std::span<const float> x, Buffer& out, const Keys& keys,
                      Scratch& scratch) const {
  const auto shapes = chain_->quantiser->planes(x.size());
  if (!chain_->coder) {
    const std::size_t start = out.size();
    const std::span<std::uint8_t> section(out.grow(shapes.size()), shapes.size());
    const bool finite = chain_->quantiser->encode(x, cut(section, shapes), keys, scratch);
    if (!finite) out.truncate(start);
    return finite;
  }
  const auto planes = cut(scratch.planes.reset(shapes.size()), shapes);
  if (!chain_->quantiser->encode(x, planes, keys, scratch)) return false;
  chain_->coder->encode(shapes, views(planes), out, scratch);
  return true;
}

// The planes of a section, checked. They lie in the section itself or, after a coder, in scratch.
PlaneViews Operator::read(ByteView section, std::size_t count, Scratch& scratch) const {
  const auto shapes = chain_->quantiser->planes(count);
  const auto refuse_size = [&](std::size_t size) {
    throw DataError("a section of " + std::to_string(count) + " entries by '" + spec() + "' has " +
                    std::to_string(size) + " bytes, which cannot be");
  };
  PlaneViews planes;
  if (chain_->coder) {
    if (section.size() < chain_->coder->min_size(shapes)) refuse_size(section.size());
    const auto decoded = cut(scratch.planes.reset(shapes.size()), shapes);
    chain_->coder->decode(section, shapes, decoded, scratch);
    planes = views(decoded);
  } else {
    if (section.size() != shapes.size()) refuse_size(section.size());
    planes = cut(section, shapes);
  }
  for (std::size_t i = 0; i < shapes.count; ++i)
    if (!padding_is_zero(planes[i], shapes.shape[i].width, shapes.shape[i].count))
      throw DataError("a section by '" + spec() + "' has bits set after its last entry");
  chain_->quantiser->check(planes, count);
  return planes;
}

void Operator::check(ByteView section, std::size_t count, Scratch& scratch) const {
  read(section, count, scratch);
}

void Operator::add(ByteView section, float weight, std::span<float> y, const Keys&,
                   Scratch& scratch) const {
  chain_->quantiser->add(read(section, y.size(), scratch), weight, y, scratch);
}

const std::string& Operator::spec() const { return chain_->spec; }

Traits Operator::traits(std::size_t count) const { return chain_->quantiser->traits(count); }

std::vector<std::string> example_specs() {
  std::vector<std::string> specs;
  for (const auto& stage : stages())
    specs.insert(specs.end(), stage.examples.begin(), stage.examples.end());
  return specs;
}

}  // namespace laconic
