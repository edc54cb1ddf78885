// Records of a guard, for tests that replay them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "laconic/exchange/aggregator.h"

namespace laconic::testing {

inline const GuardOptions kGuardOn{.mode = GuardOptions::Mode::on};

// A record in a file of its own, as long as it lives.
struct File {
  std::string path = ::testing::TempDir() + "guard-" + std::to_string(::getpid()) + "-" +
                     std::to_string(reinterpret_cast<std::uintptr_t>(this)) + ".jsonl";
  explicit File(const std::vector<std::string>& lines) {
    std::ofstream out(path);
    for (const auto& line : lines) out << line << '\n';
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { std::remove(path.c_str()); }
};

// A record that takes these lanes, one after the other.
inline std::vector<std::string> script(const std::vector<const char*>& lanes) {
  std::vector<std::string> lines;
  for (const char* lane : lanes)
    lines.push_back(R"({"step":)" + std::to_string(lines.size()) + R"(,"lane":")" + lane + "\"}");
  return lines;
}

}  // namespace laconic::testing
