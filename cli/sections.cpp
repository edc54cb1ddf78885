// Looking into sections, and writing those of a model.
#include "cli/sections.h"

#include <algorithm>

#include "laconic/exchange/aggregator.h"

namespace laconic::cli {
namespace {

struct Choice {
  std::shared_ptr<const Selector> selector;
  std::string codec;  // as the spec names it; empty: positions do not travel
};

bool selects(const StageInfo& stage) {
  return stage.role == Role::selector || stage.role == Role::sparse_quantiser;
}

std::shared_ptr<const Selector> selector_in(const Stage& stage) {
  if (const auto* sparse = std::get_if<SparseQuantiser>(&stage)) return sparse->selector;
  return std::get<std::shared_ptr<const Selector>>(stage);
}

Choice choice_of(const Operator& op) {
  for (const StageText& text : split_chain(op.spec())) {
    const StageInfo& stage = stage_named(text.name);
    if (!selects(stage)) continue;
    const Args args(stage.name, stage.parameters, text.args);
    const bool sent = std::ranges::count(stage.parameters, "index", &Parameter::name) > 0;
    return {selector_in(stage.make(args)), sent ? args.text("index") : ""};
  }
  return {};
}

// With "auto" the first number of a section says which codec it is: docs/frame.md.
std::string codec_in(ByteView section, const std::string& named) {
  if (named.empty()) return "drawn";
  if (named != "auto" || section.empty()) return named;
  return index_codec_in(section[0]).name;
}

}  // namespace

double Kept::bits_per_position() const {
  return entries == 0 ? 0 : 8 * static_cast<double>(bytes) / static_cast<double>(entries);
}

std::optional<Kept> kept_in(const Frame& frame, const Section& section, Scratch& scratch) {
  const Operator& op = frame.operators[section.operator_index];
  if (section.state != SectionState::coded) return {};
  const auto [selector, codec] = choice_of(op);
  if (!selector) return {};
  if (section.count == 0) return Kept{0, 0, codec_in({}, codec)};
  Decoder decoder;
  op.open(section.bytes, section.count, frame.header.keys().at(section.first), scratch, decoder);
  Buffer positions;
  selector->write(decoder.positions(), section.count, positions);
  return Kept{decoder.positions().size(), positions.size(), codec_in(section.bytes, codec)};
}

std::vector<Rule> parse_rules(const std::vector<std::string>& texts) {
  std::vector<Rule> rules;
  for (const std::string& text : texts) {
    rules.push_back(parse_rule(text));
    if (rules.back().rank > 0)
      throw UsageError("rule '" + text + "' names a rank, which no frame has; allowed: op=SPEC");
  }
  return rules;
}

void write_model(const Plan& plan, std::span<const float> values, const FrameHeader& header,
                 ModelFrame& out, Scratch& scratch) {
  out.bytes.clear();
  out.seconds.clear();
  FrameWriter frame(out.bytes, header, plan.operators);
  Stopwatch watch;
  for (std::size_t i = 0; i < plan.layout.size(); ++i) {
    const Slice& slice = plan.layout[i];
    frame.add(slice.offset, values.subspan(slice.offset, slice.count), plan.operator_of[i],
              header.keys(), scratch, {}, slice.cols);
    out.seconds.push_back(watch.lap());
  }
  out.payload_bytes = frame.finish();
}

}  // namespace laconic::cli
