// Parts, tensors and slices: which of them wait for which.
#include "laconic/exchange/submitted.h"

#include "laconic/base/errors.h"
#include "laconic/exchange/exchange.h"

namespace laconic {
namespace {

constexpr std::size_t kNone = ~std::size_t{0}, kOther = kNone - 1;

}  // namespace

Submitted::Submitted(const Model& model)
    : model_(model), gradient_(model), part_of_(model.size(), kNone) {}

// The tables of a plan are made anew only when it is another one than in the step before.
void Submitted::begin(const Plan& plan, std::span<const std::size_t> tensors) {
  const Places& places = gradient_.places();
  if (plan_ != &plan) {
    std::vector<std::vector<std::size_t>> of(places.tensors());
    tensors_of_.assign(plan.layout.size(), 0);
    for (std::size_t i = 0; i < plan.layout.size(); ++i)
      places.each(plan.layout[i], [&](std::size_t tensor, std::size_t, std::size_t) {
        of[tensor].push_back(i);
        ++tensors_of_[i];
      });
    slices_begin_.assign(1, 0);
    slices_.clear();
    for (const auto& slices : of) {
      slices_.insert(slices_.end(), slices.begin(), slices.end());
      slices_begin_.push_back(slices_.size());
    }
    plan_ = &plan;
  }
  missing_ = tensors_of_;
  whole_ = tensors.empty();
  over_.assign(tensors.begin(), tensors.end());
  for (std::size_t t = 0; t < model_.size() && whole_; ++t) over_.push_back(t);
  part_of_.assign(part_of_.size(), kOther);
  for (const std::size_t tensor : over_) part_of_[tensor] = kNone;
  if (!whole_) require_whole_slices();
  gradient_.clear();
  entries_.clear();
  parts_.clear();
  put_ = taken_ = there_ = 0;
  schedule_ = 0;
}

void Submitted::require_whole_slices() const {
  for (const std::size_t tensor : over_)
    for (std::size_t s = slices_begin_[tensor]; s < slices_begin_[tensor + 1]; ++s) {
      const Slice& slice = plan_->layout[slices_[s]];
      gradient_.places().each(slice, [&](std::size_t other, std::size_t, std::size_t) {
        if (part_of_[other] == kOther)
          throw UsageError("a step over tensor '" + model_[tensor].name + "' without '" +
                           model_[other].name + "', which is in the same slice '" + slice.name +
                           "'; allowed: all tensors of a slice, or none");
      });
    }
}

std::size_t Submitted::put(const Part& part) {
  if (part.data.size() != part.tensors.size() ||
      (!part.rests.empty() && part.rests.size() != part.tensors.size()))
    throw UsageError("a part of " + std::to_string(part.tensors.size()) + " tensors has " +
                     std::to_string(part.data.size()) + " arrays and " +
                     std::to_string(part.rests.size()) + " marks of rest");
  if (part.dtype == Dtype::float64)
    throw UsageError("a part of float64; allowed: float32, bfloat16, float16");
  const std::size_t number = parts_.size(), first = entries_.size();
  std::size_t left = 0, bytes = 0;
  for (std::size_t i = 0; i < part.tensors.size(); ++i) {
    const std::size_t tensor = part.tensors[i];
    const bool known = tensor < model_.size();
    const char* why = !known                       ? "is none of the model's"
                      : part_of_[tensor] == kOther ? "is none of this step's"
                      : part_of_[tensor] != kNone  ? "was submitted before in this step"
                      : part.data[i] == nullptr && gradient_.places().count(tensor) > 0
                          ? "has no array"
                          : nullptr;
    if (why) {
      for (std::size_t j = first; j < entries_.size(); ++j) part_of_[entries_[j].tensor] = kNone;
      entries_.resize(first);
      throw UsageError("tensor " + std::to_string(tensor) +
                       (known ? " ('" + model_[tensor].name + "') " : " ") + why);
    }
    part_of_[tensor] = number;
    entries_.push_back({tensor, part.data[i], part.dtype, !part.rests.empty() && part.rests[i]});
    left += slices_begin_[tensor + 1] - slices_begin_[tensor];
    bytes += gradient_.places().count(tensor) * dtype_size(part.dtype);
  }
  put_ += part.tensors.size();
  parts_.push_back({first, entries_.size(), left, bytes, all_put()});
  return number;
}

std::size_t Submitted::take(std::vector<std::size_t>& completed) {
  const Of part = parts_[taken_++];
  std::size_t bytes = 0;
  schedule_ = hash_of(schedule_, static_cast<std::uint32_t>(part.last - part.first));
  for (std::size_t e = part.first; e < part.last; ++e) {
    const Entry& entry = entries_[e];
    gradient_.take(entry.tensor, entry.data, entry.dtype, entry.rests);
    ++there_;
    schedule_ = hash_of(schedule_, static_cast<std::uint32_t>(entry.tensor));
    bytes += gradient_.bytes(entry.tensor);
    for (std::size_t s = slices_begin_[entry.tensor]; s < slices_begin_[entry.tensor + 1]; ++s)
      if (--missing_[slices_[s]] == 0) completed.push_back(slices_[s]);
  }
  return bytes;
}

bool Submitted::shares_tensors(const Slice& slice) const {
  bool any = false;
  gradient_.places().each(slice, [&](std::size_t tensor, std::size_t, std::size_t) {
    any |= slices_begin_[tensor + 1] - slices_begin_[tensor] > 1;
  });
  return any;
}

void Submitted::written(const Slice& slice) {
  gradient_.places().each(slice, [&](std::size_t tensor, std::size_t, std::size_t) {
    --parts_[part_of_[tensor]].left;
  });
}

std::vector<std::string> Submitted::lacking(const std::size_t* part) const {
  std::vector<std::string> names;
  for (std::size_t t = 0; t < model_.size(); ++t) {
    if (part_of_[t] != kNone) continue;  // of other steps neither slices nor parts are here
    bool needed = false;                 // a slice of it has another tensor that was submitted
    for (std::size_t s = slices_begin_[t]; s < slices_begin_[t + 1]; ++s)
      gradient_.places().each(
          plan_->layout[slices_[s]], [&](std::size_t tensor, std::size_t, std::size_t) {
            needed |= part ? part_of_[tensor] == *part : part_of_[tensor] != kNone;
          });
    if (needed) names.push_back(model_[t].name);
  }
  return names;
}

// As Attempt forms units: by size alone.
bool Submitted::waits_for_more(std::size_t part, std::size_t unit_bytes) const {
  std::size_t forming = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    forming += parts_[p].bytes;
    if (forming < unit_bytes && !parts_[p].completes) continue;
    if (p >= part) return false;
    forming = 0;
  }
  return true;
}

TensorStats Submitted::stats(std::size_t tensor, std::span<const std::uint64_t> sent) const {
  if (tensor >= model_.size())
    throw UsageError("no tensor " + std::to_string(tensor) + "; there are " +
                     std::to_string(model_.size()));
  TensorStats stats;
  if (!plan_ || !gradient_.has(tensor)) return stats;
  stats.dense_bytes = gradient_.bytes(tensor);
  stats.rests = gradient_.rests(tensor);
  double bytes = 0;
  for (std::size_t s = slices_begin_[tensor]; s < slices_begin_[tensor + 1]; ++s) {
    const Slice& slice = plan_->layout[slices_[s]];
    gradient_.places().each(slice, [&](std::size_t t, std::size_t, std::size_t count) {
      if (t == tensor)
        bytes += static_cast<double>(sent[slices_[s]]) * static_cast<double>(count) /
                 static_cast<double>(slice.count);
    });
  }
  stats.payload_bytes = static_cast<std::uint64_t>(bytes + 0.5);
  return stats;
}

Tensors Submitted::tensors(bool lets_rest) {
  sent_.clear();
  averaged_.clear();
  for (std::size_t t = 0; t < model_.size(); ++t) {
    if (!gradient_.has(t)) continue;
    averaged_.push_back(t);
    bool sent = !lets_rest;
    for (std::size_t s = slices_begin_[t]; s < slices_begin_[t + 1]; ++s)
      sent |= !gradient_.rests(plan_->layout[slices_[s]]);
    if (sent) sent_.push_back(t);
  }
  return {sent_, averaged_};
}

}  // namespace laconic
