// NumPy's .npz: named .npy files in an uncompressed zip archive, as np.load reads it.
#pragma once

#include <string>
#include <string_view>

#include "laconic/base/buffer.h"

namespace laconic {

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

}  // namespace laconic
