// Parsing of stages and their arguments.
#include "laconic/base/args.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "laconic/base/errors.h"

namespace laconic {
namespace {

constexpr std::size_t kLongestSpec = 1024;

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

// The shortest digits that read back the same; as people write numbers of an ordinary size, and
// never with a '+', which joins stages.
std::string print(double value) {
  const double size = std::abs(value);
  const bool ordinary = value == 0 || (size >= 1e-6 && size < 1e15);
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value == 0 ? 0.0 : value,
                    ordinary ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  std::erase(text, '+');
  return text;
}

// As people write it: 4M rather than 4194304.
std::string with_unit(double value) {
  const char* suffix[] = {"", "K", "M", "G"};
  int power = 0;
  while (power < 3 && value >= 1024 && std::fmod(value, 1024) == 0) value /= 1024, ++power;
  return print(value) + suffix[power];
}

double unit(std::string_view suffix) {
  if (suffix == "K") return 1024.0;
  if (suffix == "M") return 1024.0 * 1024;
  if (suffix == "G") return 1024.0 * 1024 * 1024;
  return suffix.empty() ? 1.0 : NAN;
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return {};
  value *= unit({end, static_cast<std::size_t>(text.data() + text.size() - end)});
  if (std::isnan(value)) return {};
  return value;
}

// The value in its one canonical spelling, if the parameter takes it.
std::optional<std::string> accept(const Parameter& parameter, std::string_view text) {
  if (parameter.is_word()) {
    const auto words = parameter.words();
    if (std::ranges::find(words, text) == words.end()) return {};
    return std::string(text);
  }
  const auto value = parse_number(text);
  if (!value || *value < parameter.min || *value > parameter.max) return {};
  if (parameter.whole && *value != std::floor(*value)) return {};
  return print(*value);
}

std::string describe(const std::vector<Parameter>& parameters) {
  if (parameters.empty()) return "it takes no arguments";
  std::vector<std::string> lines;
  for (const auto& p : parameters) lines.push_back(p.name + " = " + p.range());
  return "allowed: " + join(lines);
}

std::vector<std::string_view> split(std::string_view text, char between) {
  std::vector<std::string_view> parts;
  for (std::size_t from = 0;;) {
    const auto to = text.find(between, from);
    parts.push_back(text.substr(from, to - from));
    if (to == std::string_view::npos) return parts;
    from = to + 1;
  }
}

bool spec_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view(":+,=._-").find(c) != std::string_view::npos;
}

// "'%'", or "the byte 0x1b" of what cannot be shown.
std::string named(char c) {
  if (c >= ' ' && c <= '~') return quoted({&c, 1});
  constexpr const char* kDigits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return std::string("the byte 0x") + kDigits[byte >> 4] + kDigits[byte & 15];
}

}  // namespace

std::string join(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : std::string(between)) + word;
  return text;
}

std::string Parameter::range() const {
  if (is_word()) return join(words(), " | ");
  if (!whole) return print(min) + " to " + print(max);
  return with_unit(min) + " to " + with_unit(max) + ", whole";
}

std::vector<StageText> split_chain(std::string_view spec) {
  if (spec.size() > kLongestSpec)
    throw UsageError("a spec of " + std::to_string(spec.size()) + " characters; allowed: up to " +
                     std::to_string(kLongestSpec));
  if (const auto wrong = std::ranges::find_if_not(spec, spec_character); wrong != spec.end())
    throw UsageError("the spec has " + named(*wrong) + " in place " +
                     std::to_string(wrong - spec.begin() + 1) +
                     "; allowed: letters, digits and : + , = . _ -");
  std::vector<StageText> stages;
  for (const auto part : split(spec, '+')) {
    const auto colon = part.find(':');
    const StageText stage{part.substr(0, colon),
                          colon == std::string_view::npos ? "" : part.substr(colon + 1)};
    if (stage.name.empty() || (colon != std::string_view::npos && stage.args.empty()))
      throw UsageError("spec " + quoted(spec) + " has an empty " +
                       (stage.name.empty() ? "stage" : "argument list after ':'"));
    stages.push_back(stage);
  }
  return stages;
}

Args::Args(std::string_view stage, const std::vector<Parameter>& parameters,
           std::string_view text) {
  const std::string name(stage);
  for (const auto part : text.empty() ? std::vector<std::string_view>() : split(text, ',')) {
    const auto equals = part.find('=');
    const bool bare = equals == std::string_view::npos;
    const auto key = bare ? std::string_view() : part.substr(0, equals);
    const auto value = bare ? part : part.substr(equals + 1);
    bool known = false, placed = false, refused = false;
    std::string taken;  // a parameter that takes such a value and has one
    for (const auto& parameter : parameters) {
      if (bare && values_.contains(parameter.name)) {
        if (taken.empty() && accept(parameter, value)) taken = parameter.name;
        continue;
      }
      if (!bare && parameter.name != key) continue;
      if (refused && !parameter.is_word()) continue;
      known = true;
      if (values_.contains(parameter.name))
        throw UsageError(name + ": " + parameter.name + " is given twice");
      const auto accepted = accept(parameter, value);
      if (!accepted) {
        refused |= !parameter.is_word();  // 'arc:2' is no sketch but a density that cannot be
        continue;
      }
      values_[parameter.name] = *accepted;
      placed = true;
      break;
    }
    if (placed) continue;
    if (!bare && !known)
      throw UsageError(name + ": no parameter " + quoted(key) + "; " + describe(parameters));
    throw UsageError(name + ": " + quoted(part) + " is not allowed" +
                     (taken.empty() ? "" : " beside another " + taken) + "; " +
                     describe(parameters));
  }
  std::string listed;
  for (const auto& parameter : parameters) {
    if (!values_.contains(parameter.name)) {
      if (parameter.fallback.empty())
        throw UsageError(name + " needs " + parameter.name + "; " + describe(parameters));
      values_[parameter.name] = *accept(parameter, parameter.fallback);
    } else if (parameter.fallback.empty() ||
               values_[parameter.name] != *accept(parameter, parameter.fallback)) {
      // A required first parameter is said bare, as people write it; the rest by key.
      const bool first = listed.empty() && &parameter == &parameters.front();
      listed += (listed.empty() ? "" : ",") +
                (first || parameter.is_word() ? "" : parameter.name + "=") +
                values_[parameter.name];
    }
  }
  canonical_ = name + (listed.empty() ? "" : ":" + listed);
}

double Args::number(const std::string& name) const { return *parse_number(values_.at(name)); }

std::uint64_t Args::whole(const std::string& name) const {
  return static_cast<std::uint64_t>(number(name));
}

}  // namespace laconic
