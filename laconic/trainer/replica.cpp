// Flat parameters and gradients around a network, and hooks on its backward pass.
#include "laconic/trainer/replica.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>
#include <functional>

#include "laconic/base/key.h"
#include "laconic/trainer/networks.h"

namespace laconic::trainer {
namespace {

// Uniform in +-1/sqrt(fan-in), from the key rather than torch's generator, which all threads share.
void initialise(std::span<float> values, const torch::Tensor& weight, Key key) {
  const auto fan_in = static_cast<double>(weight.numel() / weight.size(0));
  const double bound = 1 / std::sqrt(fan_in);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(bound * (static_cast<double>(key.bits(i) >> 11) * 0x1p-52 - 1));
}

constexpr std::int64_t kScoreBatch = 500;

}  // namespace

struct Replica::Network {
  std::shared_ptr<Net> net;
  Model model;
  torch::Tensor parameters, gradient;  // flat; the network's own tensors are views of them
  // What adds up each tensor's gradient: torch keeps them only while somebody else does.
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators;
  std::vector<bool> reported;
  const Ready* ready = nullptr;  // while backward runs

  void report(std::size_t tensor) {
    if (!ready || !*ready || reported[tensor]) return;
    reported[tensor] = true;
    (*ready)(tensor);
  }

  // The hook runs when the tensor's gradient has been added to.
  void watch(const torch::Tensor& tensor, std::size_t number) {
    using torch::autograd::variable_list;
    accumulators.push_back(torch::autograd::impl::grad_accumulator(tensor));
    accumulators.back()->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [this, number](const variable_list& outputs, const variable_list&) {
          report(number);
          return outputs;
        }));
  }

  // Tensors that the loss does not depend on have a gradient of 0, and nobody says so.
  void backward(const torch::Tensor& loss, const Ready& given) {
    reported.assign(model.size(), false);
    ready = &given;
    try {
      loss.backward();
      for (std::size_t tensor = 0; tensor < model.size(); ++tensor) report(tensor);
    } catch (...) {
      ready = nullptr;
      throw;
    }
    ready = nullptr;
  }

  std::span<float> flat(torch::Tensor& tensor) const {
    return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
  }

  // Images as floats, and their labels.
  static std::pair<torch::Tensor, torch::Tensor> batch(
      const Images& images, std::size_t count,
      const std::function<std::size_t(std::size_t)>& which) {
    const std::size_t size = images.rows * images.cols;
    const auto n = static_cast<std::int64_t>(count);
    auto x = torch::empty(
        {n, 1, static_cast<std::int64_t>(images.rows), static_cast<std::int64_t>(images.cols)});
    auto y = torch::empty({n}, torch::kLong);
    float* to = x.data_ptr<float>();
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint8_t* from = images.pixels.data() + which(i) * size;
      for (std::size_t p = 0; p < size; ++p) *to++ = static_cast<float>(from[p]) / 255;
      y.data_ptr<std::int64_t>()[i] = images.labels[which(i)];
    }
    return {x, y};
  }
};

Replica::Replica(const std::string& name, const Data& data, std::uint64_t seed)
    : network_(std::make_unique<Network>()) {
  Network& n = *network_;
  n.net = make_net(name, data);
  std::int64_t count = 0;
  for (const auto& item : n.net->named_parameters()) count += item.value().numel();
  n.parameters = torch::zeros({count});
  n.gradient = torch::zeros({count});
  const Key key = Key(seed).fork(0x706172616d);
  const torch::NoGradGuard no_grad;
  torch::Tensor weight;  // the one before a bias, whose fan-in the bias shares
  std::int64_t offset = 0;
  for (const auto& item : n.net->named_parameters()) {
    torch::Tensor tensor = item.value();
    const std::int64_t size = tensor.numel();
    if (tensor.dim() > 1) weight = tensor;
    const auto values =
        n.flat(n.parameters)
            .subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
    initialise(values, weight, key.fork(static_cast<std::uint64_t>(offset)));
    tensor.set_data(n.parameters.narrow(0, offset, size).view(tensor.sizes()));
    tensor.mutable_grad() = n.gradient.narrow(0, offset, size).view(tensor.sizes());
    n.model.push_back({item.key(), {tensor.sizes().begin(), tensor.sizes().end()}});
    n.watch(tensor, n.model.size() - 1);
    offset += size;
  }
}

Replica::~Replica() = default;

const Model& Replica::model() const { return network_->model; }
std::span<float> Replica::parameters() { return network_->flat(network_->parameters); }
std::span<float> Replica::gradient() { return network_->flat(network_->gradient); }

double Replica::learn(const Images& images, std::span<const std::uint32_t> which,
                      const Ready& ready) {
  const auto [x, y] = Network::batch(images, which.size(), [&](std::size_t i) { return which[i]; });
  network_->gradient.zero_();
  const torch::Tensor loss = torch::nn::functional::cross_entropy(network_->net->forward(x), y);
  network_->backward(loss, ready);
  return loss.item<double>();
}

Score Replica::score(const Images& images, std::size_t from, std::size_t to) {
  const torch::NoGradGuard no_grad;
  Score score;
  while (from < to) {
    const std::size_t count = std::min<std::size_t>(kScoreBatch, to - from);
    const auto [x, y] = Network::batch(images, count, [&](std::size_t i) { return from + i; });
    const torch::Tensor logits = network_->net->forward(x);
    const auto sum = torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum);
    score.loss += torch::nn::functional::cross_entropy(logits, y, sum).item<double>();
    score.correct += static_cast<std::size_t>(logits.argmax(1).eq(y).sum().item<std::int64_t>());
    from += count;
  }
  return score;
}

void use_one_core() { at::set_num_threads(1); }

}  // namespace laconic::trainer
