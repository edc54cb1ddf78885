// The spec language: chain := stage ('+' stage)*, stage := name[:arg[,arg]*], arg := value |
// key=value. Example: "topk:0.01+qsgd:levels=4,norm=max". Nothing in it needs quoting in a shell.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace laconic {

// One parameter of a stage: one of a few words, or a number in a range.
struct Parameter {
  std::string name;
  std::string fallback = {};              // the value when none is given; empty: must be given
  std::vector<std::string> choices = {};  // the allowed words; empty: a number
  // The allowed words when another table has them; asked for when needed, so that it may fill
  // first.
  std::vector<std::string> (*names)() = nullptr;
  double min = 0, max = 0;  // the allowed range of a number, both ends included
  bool whole = false;       // whole numbers only; K, M, G (times 1024) may follow
  std::string help = {};

  bool is_word() const { return names || !choices.empty(); }
  std::vector<std::string> words() const { return names ? names() : choices; }
  std::string range() const;  // "8 | 9" or "1 to 4096"
};

struct StageText {
  std::string_view name, args;
};

// Cuts a chain in its stages. Throws UsageError when a stage is empty or the text has characters no
// spec can have.
std::vector<StageText> split_chain(std::string_view spec);

// The arguments of one stage, checked against its parameters. A bare value goes to the first
// parameter not yet set that accepts it, so "natural:nearest" needs no key; a number that the first
// number not yet set refuses goes to no other. Throws UsageError naming the value and what is
// allowed.
class Args {
 public:
  Args(std::string_view stage, const std::vector<Parameter>& parameters, std::string_view text);

  const std::string& text(const std::string& name) const { return values_.at(name); }
  double number(const std::string& name) const;
  std::uint64_t whole(const std::string& name) const;

  // The shortest way to say the same: "name" or "name:value,key=value", defaults left out.
  const std::string& canonical() const { return canonical_; }

 private:
  std::map<std::string, std::string> values_;
  std::string canonical_;
};

// "a, b, c", for messages that say what is allowed.
std::string join(const std::vector<std::string>& words, std::string_view between = ", ");

}  // namespace laconic
