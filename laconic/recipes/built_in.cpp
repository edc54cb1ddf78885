// The built-in recipes.
#include "laconic/recipes/recipe.h"

namespace laconic {
namespace {

// A few steps with more than the density that comes after: Lin et al., DGC (arXiv 1712.01887),
// section 3.3.
const std::vector<std::string> kDgcWarmup = {"30 topk:0.25", "60 topk:0.0625", "90 topk:0.015625",
                                             "120 topk:0.004"};

// Where no paper says how ranks talk to each other, or all that it says is that means are made.
// Others keep what theirs says: frames to all (dgc, gmc, sbc, sparseloco: sums that are compressed
// once more would be another method), a mean of all h that nothing is dropped of (diana).
constexpr const char* kAuto = "auto";

Tuning rate(double lr) {
  Tuning tuning;
  tuning.lr = lr;
  return tuning;
}

Tuning momentum(double momentum, double lr) {
  Tuning tuning = rate(lr);
  tuning.momentum = momentum;
  return tuning;
}

// Of the optimiser, where the memory carries it or feedback takes its place.
Tuning no_momentum(double lr = 0.05) { return momentum(0, lr); }

Tuning adamw(double lr) {
  Tuning tuning = rate(lr);
  tuning.optimizer = "adamw";
  return tuning;
}

// Eight workers with half the batch: the images of a step are as many as with four.
Tuning gossip(double lr) {
  Tuning tuning = rate(lr);
  tuning.workers = 8;
  tuning.batch = 16;
  return tuning;
}

void add_averaging(std::vector<Recipe>& all) {
  all.push_back({.name = "dense",
                 .exchange = "dense",
                 .summary = "Uncompressed: ring all-reduce of float32."});
  all.push_back({.name = "half",
                 .op = "half",
                 .exchange = kAuto,
                 .summary = "16-bit floats, scaled per block."});
  all.push_back({.name = "natural",
                 .op = "natural",
                 .exchange = kAuto,
                 .summary = "Natural compression, 9 bits."});
  all.push_back({.name = "natural-8",
                 .op = "natural:8",
                 .exchange = kAuto,
                 .summary = "Natural compression in a window, 8 bits."});
  all.push_back({.name = "natural-entropy",
                 .op = "natural+entropy",
                 .exchange = kAuto,
                 .summary = "Natural compression, entropy-coded."});
  all.push_back({.name = "natural-feedback",
                 .op = "natural:nearest+entropy",
                 .memory = "feedback",
                 .exchange = kAuto,
                 .summary = "Nearest powers of two with error feedback, entropy-coded."});
  all.push_back(
      {.name = "natural-sharded",
       .op = "natural",
       .exchange = "sharded",
       .summary = "Natural compression both ways between owners of shards; traffic does not grow "
                  "with ranks."});
  all.push_back({.name = "natural-bidirectional",
                 .op = "natural",
                 .exchange = "server",
                 .summary = "Natural compression both ways through rank 0."});
  all.push_back({.name = "natural-dithering",
                 .op = "bucket:512+dithering:4",
                 .exchange = kAuto,
                 .summary = "Natural dithering of buckets of 512, four levels and zero."});
  all.push_back({.name = "natural-dithering-unbucketed",
                 .op = "dithering:9",
                 .exchange = kAuto,
                 .summary = "Natural dithering of whole tensors, nine levels and zero."});
  all.push_back(
      {.name = "grid",
       .op = "grid",
       .exchange = kAuto,
       .summary = "Natural compression's guarantee, certified, in a fraction of its bits."});
  all.push_back(
      {.name = "dither",
       .op = "dither",
       .exchange = kAuto,
       .summary = "The same guarantee in half of grid's bits: noise that receivers draw, too, and "
                  "take off again."});
  all.push_back({.name = "terngrad",
                 .op = "bucket:512+terngrad",
                 .exchange = kAuto,
                 .summary = "Signs and zeros, at random, per bucket of 512."});
  all.push_back({.name = "qsgd",
                 .op = "bucket:512+qsgd:4,max",
                 .exchange = kAuto,
                 .summary = "Four levels and zero, at random, per bucket of 512."});
  all.push_back({.name = "qsgd-unbucketed",
                 .op = "qsgd:16,max",
                 .exchange = kAuto,
                 .summary = "Sixteen levels and zero, at random, of whole tensors."});
  all.push_back({.name = "global-qsgd",
                 .exchange = "global:7",
                 .summary = "Seven levels and zero of a scale that all ranks share, at random, "
                            "added on their way."});
  all.push_back({.name = "terngrad-shared",
                 .exchange = "global:1,clip=2.5",
                 .summary =
                     "TernGrad as published: each tensor clipped at 2.5 standard deviations, "
                     "signs and zeros of a scale that all ranks share."});
  all.push_back({.name = "diana",
                 .op = "bucket:512+terngrad",
                 .memory = "diana",
                 .summary = "Signs and zeros of how gradients differ from what ranks have learnt "
                            "of them."});
  all.push_back({.name = "signsgd-ef",
                 .op = "sign",
                 .memory = "feedback",
                 .exchange = kAuto,
                 .training = no_momentum(0.4),
                 .summary = "One bit per entry and a scale per tensor, with error feedback."});
  all.push_back({.name = "topk-natural",
                 .op = "topk:0.01+natural",
                 .memory = "feedback",
                 .exchange = kAuto,
                 .training = no_momentum(0.3),
                 .summary = "The largest 1 %, as powers of two, with error feedback."});
  all.push_back({.name = "dgc",
                 .op = "topk:0.001",
                 .memory = "dgc:0.5",
                 .warmup = kDgcWarmup,
                 .training = no_momentum(0.4),
                 .summary = "Deep gradient compression: the largest 0.1 % after a warm-up."});
  all.push_back({.name = "gmc",
                 .op = "topk:0.01",
                 .memory = "gmc",
                 .training = no_momentum(),
                 .summary = "The largest 1 % of gradients with the momentum of the global model."});
  all.push_back({.name = "threshold",
                 .op = "threshold:0.01",
                 .memory = "feedback",
                 .exchange = kAuto,
                 .training = momentum(0.5, 0.25),
                 .summary = "All entries of at least 0.01, with error feedback."});
  all.push_back({.name = "adaptive",
                 .op = "adaptive",
                 .memory = "feedback",
                 .exchange = kAuto,
                 .training = no_momentum(0.5),
                 .summary = "Entries of at least half the largest, with error feedback."});
  all.push_back({.name = "randomk",
                 .op = "randomk:0.1,unscaled",
                 .memory = "feedback",
                 .exchange = "summed",
                 .training = no_momentum(0.3),
                 .summary = "10 % of entries at positions all ranks share, added on their way, "
                            "with error feedback."});
  all.push_back({.name = "spardl",
                 .op = "topk:0.01",
                 .memory = "feedback",
                 .exchange = "sparse",
                 .training = no_momentum(0.4),
                 .summary =
                     "The largest 1 % of sums around a ring, what is dropped kept where it was "
                     "dropped: SparDL's residuals, not its rounds."});
  all.push_back({.name = "stc",
                 .op = "stc:0.01",
                 .memory = "feedback",
                 .exchange = "server",
                 .down_memory = "feedback",
                 .training = no_momentum(0.3),
                 .summary =
                     "Sparse ternary compression of 1 % both ways through rank 0, feedback on both "
                     "sides."});
  all.push_back({.name = "sbc1",
                 .op = "sbc:0.001",
                 .memory = "feedback",
                 .training = no_momentum(0.5),
                 .summary = "Sparse binary compression of 0.1 % in every step."});
  all.push_back({.name = "sbc2",
                 .op = "sbc:0.01",
                 .memory = "feedback:masking=on",
                 .delay = 10,
                 .summary = "Sparse binary compression of 1 % every 10 steps."});
  all.push_back({.name = "sbc3",
                 .op = "sbc:0.01",
                 .memory = "feedback:masking=on",
                 .delay = 100,
                 .summary = "Sparse binary compression of 1 % every 100 steps."});
  all.push_back({.name = "diloco",
                 .exchange = "dense",
                 .delay = 30,
                 .outer = "nesterov:0.9,0.7",
                 .training = adamw(0.002),
                 .summary = "30 local steps of AdamW, Nesterov outside, uncompressed."});
  all.push_back({.name = "streaming-diloco",
                 .op = "dithering:7,inf",
                 .delay = 30,
                 .outer = "nesterov:0.9,0.4",
                 .fragments = 3,
                 .overlap = 5,
                 .merge = 0.5,
                 .training = adamw(0.004),
                 .summary = "DiLoCo by three fragments in turn, in 4 bits, each under way for 5 "
                            "steps: outer rate, overlap, merging and width are the paper's."});
  all.push_back(
      {.name = "sparseloco",
       .op = "chunk:4096,kept=64+binned",
       .memory = "feedback:0.95",
       .delay = 15,
       .training = adamw(0.008),
       .summary = "15 local steps of AdamW, 64 of 4096 entries in 2 bits, decayed feedback."});
  all.push_back({.name = "powersgd",
                 .exchange = "powersgd",
                 .summary = "Matrices as factors of rank 2, averaged by all-reduce."});
  all.push_back({.name = "arc-topk",
                 .exchange = "arc:0.05",
                 .training = no_momentum(0.2),
                 .summary = "5 % of rows, the largest in the mean, which ranks find from sketches "
                            "that add up; the rest is remembered."});
}

void add_mixing(std::vector<Recipe>& all) {
  all.push_back({.name = "dpsgd",
                 .mixer = "dpsgd",
                 .training = gossip(0.05),
                 .summary = "Plain gossip on a ring: whole models to both neighbours."});
  all.push_back({.name = "choco-sign",
                 .op = "sign",
                 .mixer = "choco:0.45",
                 .training = gossip(0.05),
                 .summary = "CHOCO on a ring, one bit per entry."});
  all.push_back({.name = "choco-topk",
                 .op = "topk:0.05",
                 .mixer = "choco:0.3,fresh",
                 .training = gossip(0.03),
                 .summary = "CHOCO on a ring, the largest 5 %."});
  all.push_back({.name = "deepsqueeze-sign",
                 .op = "sign",
                 .mixer = "deepsqueeze:0.3",
                 .training = gossip(0.05),
                 .summary = "DeepSqueeze on a ring, one bit per entry."});
  all.push_back({.name = "dcd-natural",
                 .op = "natural",
                 .mixer = "dcd",
                 .training = gossip(0.05),
                 .summary = "DCD-PSGD on a ring, natural compression of every step: a baseline."});
  all.push_back({.name = "ecd-dither",
                 .op = "dither:0.001",
                 .mixer = "ecd",
                 .training = gossip(0.05),
                 .summary = "ECD-PSGD on a ring, with an operator as exact as it needs: a "
                            "baseline."});
  all.push_back({.name = "moniqua",
                 .mixer = "moniqua:0.1,0.2",
                 .training = gossip(0.05),
                 .summary = "Moniqua on a ring, two bits per entry."});
  Tuning noloco = gossip(0.004);
  noloco.optimizer = "adamw";
  all.push_back({.name = "noloco",
                 .delay = 15,
                 .mixer = "noloco:0.5,1",
                 .topology = "pairs",
                 .training = noloco,
                 .summary = "15 local steps of AdamW, then slow weights meet those of a partner "
                            "drawn at random."});
  all.push_back({.name = "powergossip",
                 .mixer = "powergossip:1,2",
                 .training = gossip(0.05),
                 .summary = "PowerGossip on a ring: products of rank 1 of model differences, two "
                            "vectors a step."});
}

}  // namespace

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> list = [] {
    std::vector<Recipe> all;
    add_averaging(all);
    add_mixing(all);
    return all;
  }();
  return list;
}

}  // namespace laconic
