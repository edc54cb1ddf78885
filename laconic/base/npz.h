// NumPy's .npz: named .npy files in a zip archive, as np.savez writes and np.load reads it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "laconic/base/npy.h"

namespace laconic {

// Writes arrays as they are, uncompressed.
class NpzWriter {
 public:
  // Adds an array; `npy` are the bytes of a .npy file. Throws UsageError beyond 4 GiB, where zip
  // needs another format.
  void add(std::string_view name, ByteView npy);

  // The archive. Nothing can be added afterwards.
  Buffer finish();

 private:
  Buffer out_, directory_;
  std::uint16_t count_ = 0;
};

struct NpzArray {
  std::string name;  // without ".npy"
  NpyArray array;
};

// What a reader is ready to take.
struct NpzLimits {
  std::uint64_t max_bytes = std::uint64_t{1} << 33;  // of all arrays together, unpacked
};

// Reads a whole archive, stored or deflated (np.savez, np.savez_compressed), in the order of its
// directory. Throws DataError with one sentence for anything that is not a whole .npz file within
// the limits, and as read_npy does for an array in it. Memory is taken in proportion to the bytes
// given: an array takes at most 1032 times its bytes in the archive, which is as far as deflate
// goes.
std::vector<NpzArray> read_npz(ByteView bytes, const NpzLimits& limits = {});

}  // namespace laconic
