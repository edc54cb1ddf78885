// The shapes of well-known networks.
#include "laconic/layout/models.h"

#include <algorithm>

#include "tests/support.h"

namespace laconic {
namespace {

std::vector<std::uint64_t> shape_of(const Model& model, std::string_view name) {
  const auto at = std::ranges::find(model, name, &Tensor::name);
  return at == model.end() ? std::vector<std::uint64_t>{} : at->shape;
}

TEST(Models, HaveTheParametersOfTheirPapers) {
  const std::vector<std::tuple<std::string, std::size_t, std::size_t>> expected = {
      {"gpt2", 148, 124'439'808},         {"lenet5", 8, 431'080},
      {"lstm", 14, 28'949'319},           {"resnet18", 62, 11'689'512},
      {"resnet18-cifar", 62, 11'173'962}, {"resnet20", 59, 269'722},
      {"resnet50", 161, 25'557'032}};
  for (const auto& [name, tensors, count] : expected) {
    const Model model = named_model(name);
    EXPECT_EQ(model.size(), tensors) << name;
    EXPECT_EQ(count_of(model), count) << name;
  }
  EXPECT_EQ(named_models().size(), expected.size());
}

TEST(Models, ResNet50HasTheNamesAndShapesOfTorchvision) {
  const Model model = named_model("resnet50");
  using Shape = std::vector<std::uint64_t>;
  EXPECT_EQ(model.front().name, "conv1.weight");
  EXPECT_EQ(model.back().name, "fc.bias");
  EXPECT_EQ(shape_of(model, "conv1.weight"), (Shape{64, 3, 7, 7}));
  EXPECT_EQ(shape_of(model, "layer1.0.downsample.0.weight"), (Shape{256, 64, 1, 1}));
  EXPECT_EQ(shape_of(model, "layer3.5.conv2.weight"), (Shape{256, 256, 3, 3}));
  EXPECT_EQ(shape_of(model, "layer4.2.bn3.bias"), (Shape{2048}));
  EXPECT_EQ(shape_of(model, "fc.weight"), (Shape{1000, 2048}));
}

// What low-rank methods send depends on: seven matrices of 44,469 rows and 4,550 columns in all.
TEST(Models, TheLstmHasSevenMatrices) {
  std::uint64_t matrices = 0, rows = 0, cols = 0, vectors = 0;
  for (const Tensor& tensor : named_model("lstm")) {
    if (tensor.shape.size() == 1) {
      vectors += tensor.shape[0];
      continue;
    }
    ++matrices;
    rows += tensor.shape[0];
    cols += tensor.shape[1];
  }
  EXPECT_EQ(matrices, 7U);
  EXPECT_EQ(rows, 44'469U);
  EXPECT_EQ(cols, 4'550U);
  EXPECT_EQ(vectors, 44'469U);
}

TEST(Models, UnknownNamesAreExplained) {
  EXPECT_EQ(
      testing::message_of<UsageError>([] { named_model("resnet51"); }),
      "no model 'resnet51'; known: gpt2 lenet5 lstm resnet18 resnet18-cifar resnet20 resnet50");
}

}  // namespace
}  // namespace laconic
