// Networks by the rules of their papers; tensors have the names and the order that torchvision, for
// the LSTM PyTorch's example of word language models, or for GPT-2 Hugging Face gives them.
#include "laconic/layout/models.h"

#include "laconic/base/registry.h"

namespace laconic {
namespace {

using Extent = std::uint64_t;

// Collects tensors layer by layer.
class Layers {
 public:
  void tensor(const std::string& name, std::vector<Extent> shape) {
    model_.push_back({name, std::move(shape)});
  }
  void convolution(const std::string& name, Extent in, Extent out, Extent size) {
    tensor(name + ".weight", {out, in, size, size});
  }
  // Weight and bias of one layer.
  void pair(const std::string& name, std::vector<Extent> shape) {
    const Extent out = shape[0];
    tensor(name + ".weight", std::move(shape));
    tensor(name + ".bias", {out});
  }

  Model take() { return std::move(model_); }

 private:
  Model model_;
};

// One residual network: He et al. (arXiv 1512.03385).
struct Residual {
  std::vector<unsigned> blocks;  // of each stage
  Extent width;                  // channels of the first stage; each later one has twice as many
  Extent stem;                   // size of the first convolution
  bool bottleneck;               // 1x1, 3x3, 1x1 with four times the channels; else 3x3, 3x3
  bool projects;                 // a 1x1 convolution where shapes change; else nothing is learnt
  std::string linear;            // name of the last layer
  Extent classes;
};

// Adds a convolution and its batch norm; returns the channels that come out.
Extent normed(Layers& layers, const std::string& convolution, const std::string& norm, Extent in,
              Extent out, Extent size) {
  layers.convolution(convolution, in, out, size);
  layers.pair(norm, {out});
  return out;
}

// Returns the channels that come out.
Extent add_block(Layers& layers, const Residual& net, const std::string& name, Extent in,
                 Extent width) {
  Extent at = in;
  const auto step = [&](int number, Extent out, Extent size) {
    const std::string suffix = std::to_string(number);
    at = normed(layers, name + ".conv" + suffix, name + ".bn" + suffix, at, out, size);
  };
  step(1, width, net.bottleneck ? 1 : 3);
  step(2, width, 3);
  if (net.bottleneck) step(3, 4 * width, 1);
  if (net.projects && at != in)
    normed(layers, name + ".downsample.0", name + ".downsample.1", in, at, 1);
  return at;
}

Model residual(const Residual& net) {
  Layers layers;
  Extent channels = normed(layers, "conv1", "bn1", 3, net.width, net.stem);
  for (std::size_t stage = 0; stage < net.blocks.size(); ++stage)
    for (unsigned block = 0; block < net.blocks[stage]; ++block)
      channels =
          add_block(layers, net, "layer" + std::to_string(stage + 1) + "." + std::to_string(block),
                    channels, net.width << stage);
  layers.pair(net.linear, {net.classes, channels});
  return layers.take();
}

Model resnet50() { return residual({{3, 4, 6, 3}, 64, 7, true, true, "fc", 1000}); }
// The first convolution is small and there are ten classes: for images of 32 x 32.
Model resnet18_cifar() { return residual({{2, 2, 2, 2}, 64, 3, false, true, "linear", 10}); }
Model resnet18() { return residual({{2, 2, 2, 2}, 64, 7, false, true, "fc", 1000}); }
// Shortcuts where shapes change pad with zeros and have no parameters.
Model resnet20() { return residual({{3, 3, 3}, 16, 3, false, false, "linear", 10}); }

Model lenet5() {
  Layers layers;
  layers.pair("conv1", {20, 1, 5, 5});
  layers.pair("conv2", {50, 20, 5, 5});
  layers.pair("fc1", {500, 800});
  layers.pair("fc2", {10, 500});
  return layers.take();
}

// Three layers of 650; the words' vectors are the weight of the last layer too, as Vogels et al.,
// PowerSGD (arXiv 1905.13727) train it on WikiText-2.
Model lstm() {
  constexpr Extent kWords = 28869, kWidth = 650, kGates = 4 * kWidth;
  Layers layers;
  layers.tensor("encoder.weight", {kWords, kWidth});
  for (const char* layer : {"0", "1", "2"}) {
    const auto add = [&](const char* what, std::vector<Extent> shape) {
      layers.tensor(std::string("rnn.") + what + "_l" + layer, std::move(shape));
    };
    add("weight_ih", {kGates, kWidth});
    add("weight_hh", {kGates, kWidth});
    add("bias_ih", {kGates});
    add("bias_hh", {kGates});
  }
  layers.tensor("decoder.bias", {kWords});
  return layers.take();
}

// Twelve blocks of 768; the words' vectors are the weight of the last layer too (Radford et al.,
// Language Models are Unsupervised Multitask Learners). Weights have their inputs first.
Model gpt2() {
  constexpr Extent kWords = 50257, kPlaces = 1024, kWidth = 768;
  Layers layers;
  const auto dense = [&](const std::string& name, Extent in, Extent out) {
    layers.tensor(name + ".weight", {in, out});
    layers.tensor(name + ".bias", {out});
  };
  layers.tensor("wte.weight", {kWords, kWidth});
  layers.tensor("wpe.weight", {kPlaces, kWidth});
  for (int block = 0; block < 12; ++block) {
    const std::string name = "h." + std::to_string(block) + ".";
    layers.pair(name + "ln_1", {kWidth});
    dense(name + "attn.c_attn", kWidth, 3 * kWidth);
    dense(name + "attn.c_proj", kWidth, kWidth);
    layers.pair(name + "ln_2", {kWidth});
    dense(name + "mlp.c_fc", kWidth, 4 * kWidth);
    dense(name + "mlp.c_proj", 4 * kWidth, kWidth);
  }
  layers.pair("ln_f", {kWidth});
  return layers.take();
}

Registry<NamedModel> make_registry() {
  Registry<NamedModel> models("model");
  models.add({"gpt2", "GPT-2 small, tied, 124,439,808 parameters", gpt2, 1024});
  models.add({"lenet5", "LeNet-5 (20/50/500) for 28 x 28 images, 431,080 parameters", lenet5, 5.3});
  models.add({"lstm", "LSTM of 3 x 650 for WikiText-2, tied, 28,949,319 parameters", lstm, 35});
  models.add({"resnet18", "ResNet-18 for ImageNet, 11,689,512 parameters", resnet18, 155});
  models.add(
      {"resnet18-cifar", "ResNet-18 for CIFAR-10, 11,173,962 parameters", resnet18_cifar, 50});
  models.add({"resnet20", "ResNet-20 for CIFAR-10, 269,722 parameters", resnet20, 150});
  models.add({"resnet50", "ResNet-50 for ImageNet, 25,557,032 parameters", resnet50, 160});
  return models;
}

const Registry<NamedModel>& registry() {
  static const Registry<NamedModel> models = make_registry();
  return models;
}

}  // namespace

const std::vector<NamedModel>& named_models() { return registry().all(); }

Model named_model(std::string_view name) { return registry().at(name).make(); }

}  // namespace laconic
