// One run: encode the slices, decode them, and see tensor by tensor what was lost.
#include "cli/trial.h"

#include <algorithm>
#include <numeric>

#include "laconic/exchange/aggregator.h"
#include "laconic/kernels/reduce.h"

namespace laconic::cli {
namespace {

// What the operator promises for these entries: omega, or 1 - delta and what is lost at most per
// entry.
std::optional<double> bound_for(const Operator& op, std::size_t count, double squared) {
  const Traits traits = op.traits(count);
  if (traits.omega) return traits.omega;
  if (!traits.delta) return {};
  const double absolute = traits.absolute * traits.absolute * static_cast<double>(count);
  return 1 - *traits.delta + absolute / squared;
}

double sum(const std::vector<PartRecord>& parts, double PartRecord::*member) {
  double total = 0;
  for (const PartRecord& part : parts) total += part.*member;
  return total;
}

}  // namespace

Trial::Trial(const Model& model, std::string layout, const Operator& op,
             std::span<const Rule> rules)
    : layout_(std::move(layout)),
      plan_(make_plan(model, layout_, op, rules)),
      tensor_errors_(model.size()),
      slices_(plan_.layout.size()) {}

bool Trial::random() const {
  return std::ranges::any_of(plan_.operators, [](const Operator& op) {
    const Traits traits = op.traits(1024);
    return traits.random || traits.shared;
  });
}

void Trial::run(const Tensors& tensors, const FrameHeader& header, Scratch& scratch) {
  write_model(plan_, tensors.values, header, frame_, scratch);
  const Frame frame = read_frame(frame_.bytes.view(), {.max_count = tensors.values.size()});
  payload_bytes_.add(static_cast<double>(frame.payload_bytes));
  wire_bytes_.add(static_cast<double>(frame.wire_bytes));
  difference_.assign(tensors.values.begin(), tensors.values.end());
  decode(frame, difference_, scratch);
  note_slices(tensors, frame, scratch);
  note_tensors(tensors, difference_);
  errors_.push_back(kernels::sum_of_squares(difference_) / kernels::sum_of_squares(tensors.values));
  first_ = false;
}

// Takes what arrives from the values that were sent.
void Trial::decode(const Frame& frame, std::span<float> difference, Scratch& scratch) {
  Stopwatch watch;
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const Section& section = frame.sections[i];
    add_section(frame, section, -1, difference.subspan(section.first, section.count), scratch);
    const double seconds = watch.lap();
    PartRecord& slice = slices_[i];
    slice.encode_seconds =
        first_ ? frame_.seconds[i] : std::min(slice.encode_seconds, frame_.seconds[i]);
    slice.decode_seconds = first_ ? seconds : std::min(slice.decode_seconds, seconds);
  }
}

void Trial::note_slices(const Tensors& tensors, const Frame& frame, Scratch& scratch) {
  const std::span<const float> values = tensors.values;
  double promised = 0, kept = 0;
  bool sparse = false;
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const Slice& slice = plan_.layout[i];
    slices_[i].bytes.add(static_cast<double>(frame.sections[i].bytes.size()));
    const auto chosen = kept_in(frame, frame.sections[i], scratch);
    sparse |= chosen.has_value();
    kept += static_cast<double>(chosen ? chosen->entries : slice.count);
    const double squared = kernels::sum_of_squares(values.subspan(slice.offset, slice.count));
    if (squared == 0) continue;
    const auto bound = bound_for(plan_.op(i), slice.count, squared);
    bounded_ &= bound.has_value();
    if (!bound) continue;
    slices_[i].bound.add(*bound);
    promised += *bound * squared;
  }
  if (sparse) kept_.add(kept);
  bound_.add(promised / kernels::sum_of_squares(values));
}

void Trial::note_tensors(const Tensors& tensors, std::span<const float> difference) {
  std::span<const float> values = tensors.values;
  for (std::size_t i = 0; i < tensors.model.size(); ++i) {
    const std::size_t count = tensors.model[i].count();
    const double squared = kernels::sum_of_squares(values.first(count));
    if (squared > 0)
      tensor_errors_[i].add(kernels::sum_of_squares(difference.first(count)) / squared);
    values = values.subspan(count);
    difference = difference.subspan(count);
  }
}

std::optional<double> Trial::error() const {
  if (errors_.empty()) return {};
  return std::accumulate(errors_.begin(), errors_.end(), 0.0) / static_cast<double>(errors_.size());
}

std::optional<double> Trial::bound() const { return bounded_ ? bound_.value() : std::nullopt; }

std::optional<double> Trial::kept() const { return kept_.value(); }

double Trial::encode_seconds() const { return sum(slices_, &PartRecord::encode_seconds); }

double Trial::decode_seconds() const { return sum(slices_, &PartRecord::decode_seconds); }

}  // namespace laconic::cli
