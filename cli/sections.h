// What lies in the sections of a frame, beyond what the frame says of itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "laconic/frame/frame.h"
#include "laconic/layout/layout.h"

namespace laconic::cli {

// What the selector of an operator wrote.
struct Kept {
  std::size_t entries = 0;
  std::size_t bytes = 0;  // of the positions and their number
  std::string codec;      // "rice", or "drawn" where positions do not travel

  double bits_per_position() const;  // 0 when there is none
};

// Checks a section. Nothing for operators without a selector and for sections it did not
// write: those that are not finite or rest.
std::optional<Kept> kept_in(const Frame& frame, const Section& section, Scratch& scratch);

std::vector<Rule> parse_rules(const std::vector<std::string>& texts);

// A model's frame, as an exchange would send it.
struct ModelFrame {
  Buffer bytes;
  std::size_t payload_bytes = 0;
  std::vector<double> seconds;  // that encoding each slice took
};

// Sections have no names, as in training. `out` is filled anew and keeps its memory.
void write_model(const Plan& plan, std::span<const float> values, const FrameHeader& header,
                 ModelFrame& out, Scratch& scratch);

}  // namespace laconic::cli
