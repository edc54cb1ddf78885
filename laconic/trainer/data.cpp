// IDX files: a big-endian header (type, dimensions), then bytes.
#include "laconic/trainer/data.h"

#include <zlib.h>

#include <algorithm>
#include <filesystem>

#include "laconic/base/errors.h"
#include "laconic/base/file.h"
#include "laconic/base/key.h"

namespace laconic::trainer {
namespace {

constexpr const char* kDebianFolder = "/usr/share/datasets/fashion-mnist";
constexpr std::size_t kMostBytes = std::size_t{1} << 31;

// zlib reads gzipped and plain files alike.
std::vector<std::uint8_t> read_gzip(const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  if (!file) throw UsageError(path + ": cannot be opened");
  std::vector<std::uint8_t> bytes;
  int got = 0;
  do {
    constexpr std::size_t kPiece = 1 << 20;
    bytes.resize(bytes.size() + kPiece);
    got = gzread(file, bytes.data() + bytes.size() - kPiece, kPiece);
    bytes.resize(bytes.size() - kPiece + static_cast<std::size_t>(std::max(got, 0)));
  } while (got > 0 && bytes.size() < kMostBytes);
  int error = 0;
  gzerror(file, &error);
  gzclose(file);
  if (got < 0 || error < 0) throw DataError(path + ": the gzip file is damaged or cut short");
  return bytes;
}

std::size_t big_endian(const std::uint8_t* at) {
  return static_cast<std::size_t>(at[0]) << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

// The extents of an IDX array of bytes, whose data fill the rest of the file.
std::vector<std::size_t> idx_shape(const std::string& path, const std::vector<std::uint8_t>& bytes,
                                   std::size_t dimensions) {
  const std::size_t header = 4 + 4 * dimensions;
  if (bytes.size() < header || bytes[0] != 0 || bytes[1] != 0 || bytes[2] != 8 ||
      bytes[3] != dimensions)
    throw DataError(path + ": not an IDX file of bytes with " + std::to_string(dimensions) +
                    " dimensions");
  std::vector<std::size_t> shape;
  std::size_t product = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    shape.push_back(big_endian(bytes.data() + 4 + 4 * i));
    product *= std::max<std::size_t>(1, std::min(shape.back(), kMostBytes));
    if (product > kMostBytes) break;
  }
  if (product != bytes.size() - header)
    throw DataError(path + ": the IDX header does not fit the " + std::to_string(bytes.size()) +
                    " bytes of the file");
  return shape;
}

std::string find_file(const std::string& folder, const std::string& name) {
  for (const char* end : {"", ".gz"})
    if (std::filesystem::is_regular_file(folder + "/" + name + end))
      return folder + "/" + name + end;
  throw UsageError("no " + name + " or " + name + ".gz in '" + folder +
                   "'; a data folder holds the four official files of MNIST or Fashion-MNIST");
}

Images read_images(const std::string& folder, const std::string& prefix, std::size_t classes) {
  const std::string images_path = find_file(folder, prefix + "-images-idx3-ubyte");
  const std::string labels_path = find_file(folder, prefix + "-labels-idx1-ubyte");
  Images images;
  images.pixels = read_gzip(images_path);
  images.labels = read_gzip(labels_path);
  const auto shape = idx_shape(images_path, images.pixels, 3);
  const auto labels = idx_shape(labels_path, images.labels, 1);
  if (shape[0] != labels[0])
    throw DataError(images_path + " has " + std::to_string(shape[0]) + " images, " + labels_path +
                    " has " + std::to_string(labels[0]) + " labels");
  images.rows = shape[1];
  images.cols = shape[2];
  images.pixels.erase(images.pixels.begin(), images.pixels.begin() + 16);
  images.labels.erase(images.labels.begin(), images.labels.begin() + 8);
  for (const std::uint8_t label : images.labels)
    if (label >= classes)
      throw DataError(labels_path + ": label " + std::to_string(label) + "; allowed: 0 to " +
                      std::to_string(classes - 1));
  return images;
}

void append(const Images& from, std::size_t image, Images& to) {
  const std::size_t size = from.rows * from.cols;
  const auto first = from.pixels.begin() + static_cast<std::ptrdiff_t>(image * size);
  to.pixels.insert(to.pixels.end(), first, first + static_cast<std::ptrdiff_t>(size));
  to.labels.push_back(from.labels[image]);
}

}  // namespace

void hold_out(Data& data, std::uint64_t validation) {
  if (validation == 0) return;
  const Images all = std::move(data.train);
  if (validation >= all.count())
    throw UsageError("validation " + std::to_string(validation) + "; allowed: 0 to " +
                     std::to_string(all.count() - 1) + ", fewer than there are training images");
  data.name += ", " + std::to_string(validation) + " held out";
  data.train = data.test = {.rows = all.rows, .cols = all.cols, .pixels = {}, .labels = {}};
  // Of those that are left to be looked at, the share that is still to be found.
  const Key key = Key(0).fork(0x68656c64);
  std::uint64_t wanted = validation;
  for (std::size_t image = 0; image < all.count(); ++image) {
    const bool held = (key.bits(image) >> 32) * (all.count() - image) >> 32 < wanted;
    wanted -= held;
    append(all, image, held ? data.test : data.train);
  }
}

Data load_data(const std::string& name_or_folder, std::uint64_t validation) {
  const bool named = name_or_folder == "fashion-mnist";
  const std::string folder = named ? kDebianFolder : name_or_folder;
  if (!std::filesystem::is_directory(folder))
    throw UsageError(named ? "no Fashion-MNIST in " + folder +
                                 "; install the Debian package dataset-fashion-mnist"
                           : "no data set '" + name_or_folder +
                                 "'; allowed: fashion-mnist, or a folder with IDX files");
  Data data;
  data.name =
      named ? name_or_folder : std::filesystem::path(folder).lexically_normal().filename().string();
  if (data.name.empty()) data.name = folder;
  data.train = read_images(folder, "train", data.classes);
  data.test = read_images(folder, "t10k", data.classes);
  if (data.train.rows != data.test.rows || data.train.cols != data.test.cols)
    throw DataError("the training and test images of '" + folder + "' differ in size");
  if (data.train.count() == 0 || data.test.count() == 0)
    throw DataError("'" + folder + "' holds no images");
  hold_out(data, validation);
  return data;
}

}  // namespace laconic::trainer
