// Small made-up images and runs on them.
#pragma once

#include <filesystem>

#include "laconic/base/file.h"
#include "laconic/trainer/train.h"
#include "tests/rounds.h"
#include "tests/support.h"

namespace laconic::trainer {

using laconic::testing::shorten_rounds;

// Ten classes of 6 x 6 images: each lights up its own corner of a noisy picture.
inline Images pictures(std::size_t count, std::uint64_t seed) {
  Images images{.rows = 6, .cols = 6, .pixels = {}, .labels = {}};
  const Key key(seed);
  for (std::size_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::uint8_t>(i % 10);
    for (std::size_t p = 0; p < 36; ++p) {
      const auto noise = static_cast<std::uint8_t>(key.bits(i * 36 + p) % 100);
      images.pixels.push_back(p / 3 == label ? static_cast<std::uint8_t>(255 - noise) : noise);
    }
    images.labels.push_back(label);
  }
  return images;
}

inline const Data kData{
    .name = "made up", .train = pictures(800, 1), .test = pictures(200, 2), .classes = 10};

inline Settings small(const std::string& recipe, std::uint64_t steps = 40) {
  Settings s;
  s.model = "perceptron";
  s.recipe = find_recipe(recipe);
  s.workers = 3;
  s.batch = 8;
  s.steps = steps;
  const Tuning& tuned = s.recipe.training;
  if (tuned.optimizer == "adamw") s.optimizer.kind = "adamw";
  s.lr = tuned.optimizer == "adamw" ? 0.01F : 2 * static_cast<float>(tuned.lr.value_or(0.05));
  if (tuned.momentum) s.optimizer.momentum = static_cast<float>(*tuned.momentum);
  shorten_rounds(s.recipe, 5);  // these runs are short
  return s;
}

class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("laconic-train-" + std::to_string(getpid()) + "-" + name)) {
    std::filesystem::remove_all(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_; }
  std::vector<std::uint8_t> bytes(const std::string& name) const {
    const Buffer file = read_file(path() + "/" + name);
    return {file.view().begin(), file.view().end()};
  }

 private:
  std::filesystem::path path_;
};

}  // namespace laconic::trainer
