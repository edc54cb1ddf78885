// LeNet-5 and a perceptron.
#include "laconic/trainer/networks.h"

#include <functional>

#include "laconic/base/args.h"
#include "laconic/base/errors.h"
#include "laconic/trainer/replica.h"

namespace laconic::trainer {
namespace {

// LeNet-5 in its 20/50/500 form: 431,080 parameters on 28 x 28 images.
class LeNet5 : public Net {
 public:
  explicit LeNet5(const Data& data) {
    if (data.train.rows != 28 || data.train.cols != 28)
      throw UsageError("model lenet5 takes images of 28 x 28, not " +
                       std::to_string(data.train.rows) + " x " + std::to_string(data.train.cols));
    conv1_ = register_module("conv1", torch::nn::Conv2d(1, 20, 5));
    conv2_ = register_module("conv2", torch::nn::Conv2d(20, 50, 5));
    fc1_ = register_module("fc1", torch::nn::Linear(800, 500));
    fc2_ = register_module("fc2", torch::nn::Linear(500, static_cast<std::int64_t>(data.classes)));
  }
  torch::Tensor forward(torch::Tensor x) override {
    x = torch::max_pool2d(torch::relu(conv1_(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2_(x)), 2);
    return fc2_(torch::relu(fc1_(x.flatten(1))));
  }

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::Linear fc1_{nullptr}, fc2_{nullptr};
};

// A perceptron with one hidden layer: small and quick, for tests and first tries.
class Perceptron : public Net {
 public:
  explicit Perceptron(const Data& data) {
    const auto pixels = static_cast<std::int64_t>(data.train.rows * data.train.cols);
    fc1_ = register_module("fc1", torch::nn::Linear(pixels, 32));
    fc2_ = register_module("fc2", torch::nn::Linear(32, static_cast<std::int64_t>(data.classes)));
  }
  torch::Tensor forward(torch::Tensor x) override { return fc2_(torch::relu(fc1_(x.flatten(1)))); }

 private:
  torch::nn::Linear fc1_{nullptr}, fc2_{nullptr};
};

struct Entry {
  ModelInfo info;
  std::function<std::shared_ptr<Net>(const Data&)> make;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> list = {
      {{"lenet5", "LeNet-5 (20/50/500), 431,080 parameters"},
       [](const Data& d) { return std::make_shared<LeNet5>(d); }},
      {{"perceptron", "one hidden layer of 32, 25,450 parameters"},
       [](const Data& d) { return std::make_shared<Perceptron>(d); }},
  };
  return list;
}

}  // namespace

std::shared_ptr<Net> make_net(const std::string& name, const Data& data) {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) {
    if (entry.info.name == name) return entry.make(data);
    names.push_back(entry.info.name);
  }
  throw UsageError("no model '" + name + "'; known: " + join(names, " "));
}

const std::vector<ModelInfo>& models() {
  static const std::vector<ModelInfo> list = [] {
    std::vector<ModelInfo> infos;
    for (const Entry& entry : entries()) infos.push_back(entry.info);
    return infos;
  }();
  return list;
}

}  // namespace laconic::trainer
