// The way from files to models.
#include "cli/tensors.h"

#include <filesystem>

#include "cli/array.h"
#include "laconic/base/file.h"
#include "laconic/base/npz.h"

namespace laconic::cli {
namespace {

std::vector<NpzArray> read_arrays(const std::string& path) {
  const Buffer bytes = read_file(path);
  return named(path, [&]() -> std::vector<NpzArray> {
    if (path.ends_with(".npz")) return read_npz(bytes.view());
    if (!path.ends_with(".npy"))
      throw UsageError("the name of a file with tensors must end in .npz or .npy");
    std::vector<NpzArray> single;
    single.push_back({std::filesystem::path(path).stem().string(), read_npy(bytes.view())});
    return single;
  });
}

}  // namespace

Tensors read_tensors(const std::string& path) {
  Tensors tensors;
  for (const NpzArray& entry : read_arrays(path)) {
    tensors.model.push_back({entry.name, entry.array.shape});
    tensors.values.insert(tensors.values.end(), entry.array.values.begin(),
                          entry.array.values.end());
  }
  if (tensors.values.empty()) throw DataError(path + ": there is no entry in it");
  return tensors;
}

}  // namespace laconic::cli
