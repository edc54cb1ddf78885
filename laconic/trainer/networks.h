// Networks on libtorch. For replica.cpp alone: no other file of the project includes torch.
#pragma once

#include <torch/nn.h>

#include <memory>
#include <string>

#include "laconic/trainer/data.h"

namespace laconic::trainer {

// A network is its layers, in order, and a way through them.
class Net : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor x) = 0;
};

// One of models(). Throws UsageError for an unknown one, or images it cannot take.
std::shared_ptr<Net> make_net(const std::string& name, const Data& data);

}  // namespace laconic::trainer
