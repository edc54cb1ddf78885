// Text for people and JSON for programs, on stdout.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace laconic::cli {

using Json = nlohmann::ordered_json;

inline constexpr std::size_t kColumns = 100;

// "1,125,049"
std::string with_commas(std::uint64_t number);

// Control characters replaced by '?': names come from files, and a terminal obeys what it is sent.
std::string printable(std::string_view text);

// Cuts a text at spaces into lines of at most `width` characters, where words allow.
std::vector<std::string> wrap(std::string_view text, std::size_t width);

// Prints a text, wrapped to kColumns, every line after `indent` spaces.
void print_wrapped(std::string_view text, std::size_t indent);

// A name as a column of `width` characters has it: printable, its end replaced by ".." if too long.
std::string shortened(std::string_view name, std::size_t width);

// Replaces the last line on stderr by this one, where stderr is a terminal; empty: takes it away.
void show_progress(std::string_view line);

Json or_null(const std::optional<double>& value);

// Prints one JSON document, indented. Bytes that are no UTF-8 are replaced.
void print_json(const Json& json);

}  // namespace laconic::cli
