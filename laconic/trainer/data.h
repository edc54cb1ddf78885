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
// DataError for files that are something else.
Data load_data(const std::string& name_or_folder);

}  // namespace laconic::trainer
