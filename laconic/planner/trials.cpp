// Words of rules and specs.
#include "laconic/planner/trials.h"

#include <charconv>

#include "laconic/base/errors.h"

namespace laconic {

std::string only(const std::string& name) {
  if (name.find(',') != std::string::npos)
    throw UsageError("tensor '" + name + "' has a comma in its name, which no rule can have");
  std::string glob;
  for (const char c : name) {
    if (std::string_view("*?[]\\").find(c) != std::string_view::npos) glob += '\\';
    glob += c;
  }
  return glob;
}

std::string number_text(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::general, 4);
  return {text, end.ptr};
}

}  // namespace laconic
