// What was submitted in a step: which tensors are there, which slices that completes, and which
// parts are done.
#pragma once

#include "laconic/exchange/aggregator.h"
#include "laconic/exchange/gradient.h"

namespace laconic {

class Submitted {
 public:
  explicit Submitted(const Model& model);

  // A new step with this plan, over these tensors, ascending; over all if there are none. Throws
  // UsageError where a slice has tensors of the step and others.
  void begin(const Plan& plan, std::span<const std::size_t> tensors = {});
  bool whole() const { return whole_; }
  std::span<const std::size_t> over() const { return over_; }  // its tensors

  // Puts a part into the inbox and returns its number. Throws UsageError for a tensor that is none,
  // or that was submitted before.
  std::size_t put(const Part& part);
  bool inbox_empty() const { return taken_ == parts_.size(); }
  bool all_put() const { return put_ == over_.size(); }

  // Takes the next part out of the inbox: its tensors are there now. Appends the slices it
  // completes and returns its bytes.
  std::size_t take(std::vector<std::size_t>& completed);
  const Gradient& gradient() const { return gradient_; }
  // Before the slice is encoded.
  void look(const Slice& slice) { gradient_.look(slice); }
  // Whether one of its tensors is in other slices, too.
  bool shares_tensors(const Slice& slice) const;
  bool all_there() const { return there_ == over_.size(); }
  std::uint32_t schedule() const { return schedule_; }  // a hash of all parts taken, in order

  // A slice's mean was written.
  void written(const Slice& slice);
  bool done(std::size_t part) const { return parts_.at(part).left == 0; }
  bool known(std::size_t part) const { return part < parts_.size(); }
  bool completes(std::size_t part) const { return parts_.at(part).completes; }

  // Tensors that a part's slices lack, by name; those of all slices begun if it is not given.
  std::vector<std::string> lacking(const std::size_t* part) const;

  // Whether a part stays here until others come: with those between it and the last that was
  // submitted it has less than so many bytes of gradient.
  bool waits_for_more(std::size_t part, std::size_t unit_bytes) const;

  // What a tensor cost, given the payload of every slice.
  TensorStats stats(std::size_t tensor, std::span<const std::uint64_t> sent) const;

  // Of this step, ascending.
  Tensors tensors(bool lets_rest);

 private:
  struct Entry {
    std::size_t tensor;
    void* data;
    Dtype dtype;
    bool rests;
  };
  struct Of {
    std::size_t first, last;  // entries
    std::size_t left;         // tensors times their slices that are not written yet
    std::size_t bytes;        // of gradient
    bool completes;           // it is the one after which all of the step's tensors are there
  };

  void require_whole_slices() const;

  Model model_;
  Gradient gradient_;
  const Plan* plan_ = nullptr;
  std::vector<std::size_t> over_;
  bool whole_ = true;
  std::vector<std::size_t> slices_begin_, slices_;  // of each tensor, by tensor
  std::vector<std::size_t> missing_;                // by slice: tensors that are not there yet
  std::vector<std::size_t> tensors_of_;             // by slice: all of its tensors
  std::vector<std::size_t> part_of_;  // by tensor; kNone: not submitted, kOther: of other steps
  std::vector<Entry> entries_;
  std::vector<Of> parts_;
  std::size_t put_ = 0, taken_ = 0, there_ = 0;  // tensors put; parts taken; tensors taken
  std::uint32_t schedule_ = 0;
  std::vector<std::size_t> sent_, averaged_;
};

}  // namespace laconic
