// Measuring what an operator does to recorded gradients under one layout.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/sections.h"
#include "cli/tensors.h"

namespace laconic::cli {

// A mean over runs; nothing when there was none.
class Mean {
 public:
  void add(double value) {
    sum_ += value;
    ++count_;
  }
  std::optional<double> value() const {
    return count_ == 0 ? std::nullopt : std::optional(sum_ / count_);
  }

 private:
  double sum_ = 0;
  unsigned count_ = 0;
};

// What is known of one part of the model, a tensor or a slice. Errors are |x - C(x)|^2 / |x|^2;
// parts that are all zero have none.
struct PartRecord {
  Mean error, bound, bytes;
  double encode_seconds = 0, decode_seconds = 0;  // the best of all runs
};

// One layout, and the record of all runs.
class Trial {
 public:
  Trial(const Model& model, std::string layout, const Operator& op, std::span<const Rule> rules);

  // Sends the values through a frame. They are finite and not all zero.
  void run(const Tensors& tensors, const FrameHeader& header, Scratch& scratch);

  const std::string& layout() const { return layout_; }
  const Plan& plan() const { return plan_; }
  bool random() const;  // two runs on the same values differ

  // By tensor: its share of the error, whatever the slices are.
  const std::vector<Mean>& tensor_errors() const { return tensor_errors_; }
  const std::vector<PartRecord>& slices() const { return slices_; }
  // Of the whole model, run by run.
  const std::vector<double>& errors() const { return errors_; }

  std::optional<double> error() const;  // the mean of errors()
  std::optional<double> bound() const;  // nothing if a slice has none
  std::optional<double> kept() const;   // entries, where an operator keeps some only
  double payload_bytes() const { return payload_bytes_.value().value_or(0); }
  double wire_bytes() const { return wire_bytes_.value().value_or(0); }
  double encode_seconds() const;
  double decode_seconds() const;

 private:
  void note_slices(const Tensors& tensors, const Frame& frame, Scratch& scratch);
  void decode(const Frame& frame, std::span<float> difference, Scratch& scratch);
  void note_tensors(const Tensors& tensors, std::span<const float> difference);

  std::string layout_;
  Plan plan_;
  std::vector<Mean> tensor_errors_;
  std::vector<PartRecord> slices_;
  std::vector<double> errors_;
  Mean bound_, kept_, payload_bytes_, wire_bytes_;
  bool bounded_ = true, first_ = true;
  ModelFrame frame_;
  std::vector<float> difference_;
};

}  // namespace laconic::cli
