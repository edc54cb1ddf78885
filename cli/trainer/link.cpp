// Links.
#include "cli/trainer/link.h"

#include "laconic/planner/link.h"

namespace laconic::cli {

Link parse_link(const std::string& text) {
  const laconic::Link link = laconic::parse_link(text);
  return {text, link.bits_per_second, link.latency_seconds};
}

double Link::step_seconds(const trainer::Totals& t, std::uint64_t steps) const {
  if (steps == 0) return 0;
  const double here =
      t.compute_seconds + t.update_seconds + t.compress_seconds + t.decompress_seconds;
  const double there = static_cast<double>(t.step_bytes()) * 8 / bits_per_second +
                       static_cast<double>(t.step_rounds()) * latency_seconds;
  return (here + there) / static_cast<double>(steps);
}

}  // namespace laconic::cli
