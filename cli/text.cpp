// How numbers and words look on the terminal.
#include "cli/text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace laconic::cli {

std::string with_commas(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

std::string printable(std::string_view text) {
  std::string result(text);
  std::ranges::replace_if(
      result, [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  return result;
}

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  while (text.size() > width) {
    auto end = text.rfind(' ', width);
    if (end == std::string_view::npos) end = std::min(text.find(' '), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!text.empty()) lines.emplace_back(text);
  return lines;
}

void print_wrapped(std::string_view text, std::size_t indent) {
  for (const auto& line : wrap(text, kColumns - indent)) fmt::print("{:{}}{}\n", "", indent, line);
}

std::string shortened(std::string_view name, std::size_t width) {
  const std::string text = printable(name);
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

void show_progress(std::string_view line) {
  if (!isatty(STDERR_FILENO)) return;
  fmt::print(stderr, "\r\033[K{}", printable(line));
  std::fflush(stderr);
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

void print_json(const Json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace laconic::cli
