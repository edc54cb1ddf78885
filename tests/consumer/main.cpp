// What a C++ user writes first: an array through a frame and back.
#include <laconic/laconic.h>

#include <cmath>
#include <cstdio>
#include <vector>

int main() {
  const std::vector<float> gradient = {0.25F, -3.0F, 0.0F, 1e-3F};

  const auto op = laconic::parse_operator("natural+entropy");
  const laconic::Buffer frame = laconic::compress(op, gradient);
  const std::vector<float> decoded = laconic::decompress(frame.view());
  if (decoded.size() != gradient.size() || decoded[0] != 0.25F || decoded[2] != 0.0F) return 1;
  for (std::size_t i = 0; i < gradient.size(); ++i)
    if (std::abs(decoded[i] - gradient[i]) > std::abs(gradient[i])) return 1;

  try {
    laconic::decompress(laconic::as_bytes("LAC not a frame"));
    return 1;
  } catch (const laconic::DataError& error) {
    std::printf("refused as it should be: %s\n", error.what());
  }
}
