// Image data sets as the official files hold them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace laconic::trainer {

// Images as bytes, one after the other, and their classes.
struct Images {
  std::size_t rows = 0, cols = 0;
  std::vector<std::uint8_t> pixels, labels;

  std::size_t count() const { return labels.size(); }
};

struct Data {
  std::string name;
  Images train, test;
  std::size_t classes = 10;
};

// "fashion-mnist" (from Debian's package dataset-fashion-mnist) or a folder with the four official
// IDX files of MNIST or Fashion-MNIST, gzipped or not. Throws UsageError naming the missing file,
// DataError for files that are something else. With `validation` so many of the training images,
// always the same ones, take the place of the test images: what is chosen by accuracy is chosen on
// these.
Data load_data(const std::string& name_or_folder, std::uint64_t validation = 0);

// The same with data that are there. Throws UsageError unless some images are left to train with.
void hold_out(Data& data, std::uint64_t validation);

}  // namespace laconic::trainer
