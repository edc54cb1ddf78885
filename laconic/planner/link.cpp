// Links and stacks by name.
#include "laconic/planner/link.h"

#include <charconv>
#include <map>
#include <string_view>
#include <utility>

#include "laconic/base/errors.h"

namespace laconic {
namespace {

using Units = std::map<std::string_view, double>;

const Units kSeconds = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};

// "100mbit" with {"mbit", 1e6} is 1e8; nothing but that is a number with a unit.
double with_unit(std::string_view text, const Units& units) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto unit = units.find({end, static_cast<std::size_t>(text.data() + text.size() - end)});
  return error == std::errc() && unit != units.end() ? value * unit->second : -1;
}

// What stands before the comma, and after it.
std::pair<std::string_view, std::string_view> parts_of(std::string_view text,
                                                       std::string_view otherwise) {
  const auto comma = text.find(',');
  if (comma == std::string_view::npos) return {text, otherwise};
  return {text.substr(0, comma), text.substr(comma + 1)};
}

bool is_short(double seconds) { return seconds >= 0 && seconds <= 60; }

}  // namespace

Link parse_link(const std::string& text) {
  const auto [rate, latency] = parts_of(text, "0s");
  const Link link{
      .latency_seconds = with_unit(latency, kSeconds),
      .bits_per_second = with_unit(rate, {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}})};
  if (!(link.bits_per_second > 0 && link.bits_per_second <= 1e15 && is_short(link.latency_seconds)))
    throw UsageError(
        "link '" + text +
        "' is not a rate and a latency such as 100mbit,1ms; units: kbit mbit gbit, us ms s");
  return link;
}

Stack parse_stack(const std::string& text) {
  const auto [message, byte] = parts_of(text, "");
  const Stack stack{.message = with_unit(message, kSeconds), .byte = with_unit(byte, kSeconds)};
  if (!is_short(stack.message) || !is_short(stack.byte))
    throw UsageError("stack '" + text +
                     "' is not seconds of a core for a message and for a byte such as 6us,0.4ns; "
                     "units: ns us ms s");
  return stack;
}

}  // namespace laconic
