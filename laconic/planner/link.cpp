// Links by name.
#include "laconic/planner/link.h"

#include <charconv>
#include <map>
#include <string_view>

#include "laconic/base/errors.h"

namespace laconic {
namespace {

// "100mbit" with {"mbit", 1e6} is 1e8; nothing but that is a number with a unit.
double with_unit(std::string_view text, const std::map<std::string_view, double>& units) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto unit = units.find({end, static_cast<std::size_t>(text.data() + text.size() - end)});
  return error == std::errc() && unit != units.end() ? value * unit->second : -1;
}

}  // namespace

Link parse_link(const std::string& text) {
  const auto comma = text.find(',');
  const std::string_view rate = std::string_view(text).substr(0, comma);
  const std::string_view latency =
      comma == std::string::npos ? "0s" : std::string_view(text).substr(comma + 1);
  const Link link{
      .latency_seconds = with_unit(latency, {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}),
      .bits_per_second = with_unit(rate, {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}})};
  if (!(link.bits_per_second > 0 && link.bits_per_second <= 1e15 && link.latency_seconds >= 0 &&
        link.latency_seconds <= 60))
    throw UsageError(
        "link '" + text +
        "' is not a rate and a latency such as 100mbit,1ms; units: kbit mbit gbit, us ms s");
  return link;
}

}  // namespace laconic
