// One worker's copy of a network. Torch is behind this wall: no other header of the trainer needs
// it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "laconic/layout/layout.h"
#include "laconic/trainer/data.h"

namespace laconic::trainer {

struct ModelInfo {
  std::string name, summary;
};

const std::vector<ModelInfo>& models();

struct Score {
  std::size_t correct = 0;
  double loss = 0;  // sum over images
};

class Replica {
 public:
  // The same seed gives the same parameters on every rank. Throws UsageError for an unknown model
  // or images it cannot take.
  Replica(const std::string& model, const Data& data, std::uint64_t seed);
  ~Replica();

  const Model& model() const;

  // All tensors one after the other, in the order of model(). Writing to parameters() changes the
  // network.
  std::span<float> parameters();
  std::span<float> gradient();

  // Called with the number of a tensor whose gradient is final.
  using Ready = std::function<void(std::size_t tensor)>;

  // Sets gradient() to the mean over these images and returns their mean loss. `ready` is called
  // once for every tensor, by this thread, while gradients of others are still being computed: the
  // part of gradient() that is this tensor's may change hands then. What it throws is thrown here.
  double learn(const Images& images, std::span<const std::uint32_t> which, const Ready& ready = {});

  // The network's answers on images [from, to).
  Score score(const Images& images, std::size_t from, std::size_t to);

 private:
  struct Network;
  std::unique_ptr<Network> network_;
};

// To be called by a worker's thread before anything else: one core for each.
void use_one_core();

}  // namespace laconic::trainer
