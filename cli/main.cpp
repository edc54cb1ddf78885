// The program: finds the subcommand, runs it, turns errors into one sentence and an exit code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <map>
#include <new>
#include <stdexcept>
#include <system_error>

#include "cli/command.h"
#include "cli/program.h"
#include "cli/text.h"
#include "laconic/base/errors.h"
#include "laconic/kernels/cpu.h"
#include "laconic/version.h"

namespace laconic::cli {
namespace {

struct Program {
  CLI::App app{"Compressed communication for distributed deep learning.", "laconic"};
  Globals globals;
  std::map<const CLI::App*, Run> runs;
};

std::string footer(const Command& command) {
  std::string text = command.examples.empty() ? "" : "Examples:\n";
  for (const auto& example : command.examples) text += "  " + example + "\n";
  return text + "Options of every command: --cpu NAME, --threads N; see laconic --help.";
}

// "bench operators" goes below "bench", which comes before it in the table.
CLI::App& parent_of(const std::string& name, CLI::App& root) {
  const auto space = name.rfind(' ');
  return space == std::string::npos ? root : *root.get_subcommand(name.substr(0, space));
}

// What was typed, in quotes where a shell asks for them.
std::string command_text(int argc, char** argv) {
  std::string text = "laconic";
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    const bool plain = !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
      return std::isalnum(c) ||
             std::string_view("-_=+:,./%@").find(static_cast<char>(c)) != std::string_view::npos;
    });
    for (std::size_t at = 0; (at = word.find('\'', at)) != std::string::npos; at += 4)
      word.replace(at, 1, "'\\''");
    text += plain ? " " + word : " '" + word + "'";
  }
  return printable(text);
}

// The library's own reading wraps -1 around to 2^64 - 1, and cuts what is beyond.
std::string refuse_wrapping(const std::string& text) {
  std::uint64_t value = 0;
  if (!CLI::detail::lexical_cast(text, value))
    return text + " is not allowed; allowed: whole numbers from 0 to 2^64 - 1";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool negative = text.size() > 1 && text[0] == '-';
  return negative || error == std::errc::result_out_of_range
             ? text + " is not allowed; allowed: whole numbers from 0 to 2^64 - 1"
             : "";
}

// Empty where the text is a number of this type.
template <class Number>
std::string refuse_words(const std::string& text, const char* allowed) {
  Number value = 0;
  return CLI::detail::lexical_cast(text, value)
             ? ""
             : "'" + text + "' is not allowed; allowed: " + allowed;
}

void refuse_wrong_numbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type.starts_with("UINT"))
      option->check([](const std::string& text) { return refuse_wrapping(text); });
    if (type.starts_with("INT"))
      option->check([](const auto& text) { return refuse_words<int>(text, "whole numbers"); });
    if (type.starts_with("FLOAT"))
      option->check([](const auto& text) { return refuse_words<double>(text, "numbers"); });
  }
}

void attach(const Command& command, Program& program) {
  const std::string word = command.name.substr(command.name.rfind(' ') + 1);
  CLI::App& app = *parent_of(command.name, program.app).add_subcommand(word, command.summary);
  app.footer(footer(command));
  app.fallthrough();
  if (command.attach) {
    program.runs[&app] = command.attach(app);
    refuse_wrong_numbers(app);
  } else if (command.program.empty()) {
    app.require_subcommand(1);
  }
}

void build(Program& program) {
  program.app
      .add_option("--cpu", program.globals.cpu, "Instruction set: auto, or one such as avx2")
      ->type_name("NAME");
  program.app.add_option("--threads", program.globals.threads, "Threads that share the work")
      ->capture_default_str();
  refuse_wrong_numbers(program.app);
  program.app.set_version_flag("--version", "laconic " LACONIC_VERSION);
  program.app.footer("Without a command, laconic runs " + default_command() +
                     ". Bytes depend on neither --cpu nor --threads.");
  for (const auto& command : commands().all()) attach(command, program);
}

const CLI::App& chosen(const CLI::App& app) {
  const auto below = app.get_subcommands();
  return below.empty() ? app : chosen(*below.front());
}

std::string full_name(const CLI::App& app) {
  return app.get_parent() ? full_name(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

[[noreturn]] void refuse_arguments(const CLI::App& app, const CLI::ParseError& error) {
  const auto& last = chosen(app);
  const auto unknown = app.remaining(true);
  std::vector<std::string> known;
  for (const CLI::App* below : last.get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(below->get_name());
  if (!known.empty() && !unknown.empty() && !unknown.front().starts_with("-"))
    throw UsageError(
        fmt::format("no command '{}'; known: {}",
                    &last == &app ? unknown.front() : last.get_name() + " " + unknown.front(),
                    join(known, " ")));
  std::string what = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) && !unknown.empty()) {
    const auto option = std::ranges::find_if(
        unknown, [](const std::string& word) { return word.starts_with("-"); });
    what = option != unknown.end() ? fmt::format("{} has no option '{}'", full_name(last), *option)
                                   : fmt::format("'{}' is a word too many", unknown.front());
  }
  throw UsageError(fmt::format("{}; see {} --help", what, full_name(last)));
}

// The command the arguments name, before they are parsed; the default one when they name none.
const Command* wanted(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--cpu" || word == "--threads") {
      ++i;
    } else if (!word.starts_with("-")) {
      const std::string two = fmt::format("{} {}", word, i + 1 < argc ? argv[i + 1] : "");
      const Command* below = commands().find(two);
      return below ? below : commands().find(word);
    } else if (word == "-h" || word == "--help" || word == "--version") {
      return nullptr;
    }
  }
  return commands().find(default_command());
}

void run(int argc, char** argv) {
  if (const Command* command = wanted(argc, argv); command && !command->program.empty())
    hand_over(command->program, argc, argv);
  Program program;
  build(program);
  try {
    program.app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    program.app.exit(help_or_version);
    return;
  } catch (const CLI::ParseError& error) {
    refuse_arguments(program.app, error);
  }
  if (program.globals.cpu != "auto") use_cpu(program.globals.cpu);
  program.globals.command = command_text(argc, argv);
  const auto& app = chosen(program.app);
  program.runs.at (&app == &program.app ? program.app.get_subcommand(default_command())
                                        : &app)(program.globals);
}

// What stdout still holds back is lost without a word otherwise.
void flush_results() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    throw SystemError("cannot write the result: " + std::generic_category().message(errno));
}

int fail(Status status, std::string_view message) {
  fmt::print(stderr, "laconic: {}\n", printable(message));
  return static_cast<int>(status);
}

int guarded_main(int argc, char** argv) {
  try {
    run(argc, argv);
    flush_results();
    return 0;
  } catch (const Stopped& stopped) {
    return 128 + stopped.signal;  // as shells tell of programs that a signal has ended
  } catch (const Error& error) {
    return fail(error.status(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(Status::system, "there is not enough memory for this");
  } catch (const std::length_error&) {  // a vector asked for more than any memory holds
    return fail(Status::system, "there is not enough memory for this");
  } catch (const std::exception& error) {
    return fail(Status::system, error.what());
  }
}

}  // namespace
}  // namespace laconic::cli

int main(int argc, char** argv) { return laconic::cli::guarded_main(argc, argv); }
