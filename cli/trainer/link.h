// A network link, as people name it: "100mbit,1ms".
#pragma once

#include <string>

#include "laconic/trainer/metrics.h"

namespace laconic::cli {

struct Link {
  std::string text;
  double bits_per_second = 0, latency_seconds = 0;

  // Seconds a step would take on this link: those really measured in the process, except that what
  // was really sent goes over the link, each wait for others costing one latency.
  double step_seconds(const trainer::Totals& totals, std::uint64_t steps) const;
};

// Rate in kbit, mbit or gbit, latency in us, ms or s. Throws UsageError.
Link parse_link(const std::string& text);

}  // namespace laconic::cli
