// Every rank of powersgd on every tensor, by steps of the engine.
//
// Columns of a factor do not hear of those after them: the first r of a step of rank R are those of
// a step of rank r. As P is orthonormal, what rank r misses is what rank R misses and the lengths
// of the columns r to R of Q: |M - P_r Q_r^T|^2 = |M - P_R Q_R^T|^2 + sum |q_k|^2. So the largest
// ranks that gain, by one run on each gradient, tell the errors of all.
#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/kernels/low_rank.h"
#include "laconic/kernels/reduce.h"
#include "laconic/planner/trials.h"
#include "laconic/transports/threads.h"

namespace laconic {
namespace {

constexpr const char* kName = "powersgd";
constexpr std::size_t kMostRank = 64;
// On the same gradient, each from where the one before it ended: as gradients that change slowly
// are treated late in training.
constexpr std::uint64_t kSteps = 4;

Args args_of(std::string_view spec) {
  const auto stages = split_chain(spec);
  const auto at = std::ranges::find(exchanges(), stages[0].name, &ExchangeInfo::name);
  return {kName, at->parameters, stages[0].args};
}

std::string spec_of(std::size_t rank, const Args& args) {
  const std::string spec =
      std::string(kName) + ":rank=" + std::to_string(rank) + ",refresh=" + args.text("refresh");
  return args_of(spec).canonical();
}

// What the last of a rank's steps gives, nothing being owed before any of them.
struct LastStep {
  std::vector<float> mean;
  std::uint64_t bytes = 0;
  State state = {};
};

LastStep last_step(const Recipe& recipe, const Model& model, const std::vector<float>& gradient) {
  const auto ends = make_thread_transports(1);
  const auto aggregator = make_aggregator({.model = model, .recipe = recipe, .seed = 1}, *ends[0]);
  LastStep last;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    if (step > 0) {
      for (auto& [role, values] : last.state)
        if (role.starts_with(std::string(kName) + "/")) std::ranges::fill(values, 0.0F);
      aggregator->load(last.state);
    }
    last.mean = gradient;
    last.bytes = aggregator->average(last.mean, {.step = step}).payload_bytes;
    last.state = aggregator->save();
  }
  return last;
}

class RankTrials : public Trials {
 public:
  RankTrials(const std::string& spec, const Situation& situation)
      : args_(args_of(spec)), samples_(situation.samples) {
    layout_ = make_plan(layer_wise(), samples_.model).layout;
    std::vector<std::size_t> largest;
    for (const Slice& slice : layout_) {
      auto& of_tensor = measured_.emplace_back();
      for (std::size_t rank = 1; rank <= kMostRank && gains(slice, rank); ++rank)
        of_tensor.push_back({.bytes = bytes_of(rank * (slice.rows + slice.cols))});
      largest.push_back(of_tensor.empty() ? 0 : of_tensor.size() - 1);
      of_tensor.push_back({.bytes = bytes_of(slice.count)});
    }
    const Recipe widest = recipe_of(largest);
    for (const auto& gradient : samples_.gradients) measure(widest, gradient);
  }

  // Beside the rank that leaves the fewest rules.
  Recipe recipe_of(const std::vector<std::size_t>& variants) const override {
    const auto as_chosen = [&](std::size_t i, std::size_t rank) {
      return std::min(rank - 1, most(i)) == variants[i];
    };
    std::size_t own = 1, fewest = layout_.size() + 1;
    for (std::size_t rank = 1; rank <= kMostRank; ++rank) {
      std::size_t others = 0;
      for (std::size_t i = 0; i < layout_.size(); ++i) others += !as_chosen(i, rank);
      if (others < fewest) own = rank, fewest = others;
    }
    Recipe recipe = uniform(own);
    for (std::size_t i = 0; i < layout_.size(); ++i)
      if (!as_chosen(i, own))
        recipe.rules.push_back("name=" + only(layout_[i].name) +
                               ",rank=" + std::to_string(rank_of(i, variants[i])));
    if (!recipe.rules.empty())
      recipe.summary = "A rank for each tensor, chosen on recorded gradients.";
    return recipe;
  }
  Recipe layer_wise() const override { return uniform(args_.whole("rank")); }

  Outcomes of_recipe(const Recipe& recipe) override {
    Outcomes outcomes{.recipe = recipe};
    for (const auto& gradient : samples_.gradients) {
      const LastStep last = last_step(recipe, samples_.model, gradient);
      double lost = 0;
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        const double difference = static_cast<double>(last.mean[i]) - gradient[i];
        lost += difference * difference;
      }
      outcomes.bytes = last.bytes;
      outcomes.error += lost * weight_of(gradient);
    }
    return outcomes;
  }

 private:
  static double bytes_of(std::size_t floats) { return static_cast<double>(floats * sizeof(float)); }
  static bool gains(const Slice& slice, std::size_t rank) {
    return shape_of_factors(slice.rows, slice.cols, rank).rank == rank;
  }
  Recipe uniform(std::size_t rank) const {
    return {.name = "planned", .exchange = spec_of(rank, args_)};
  }
  // The largest rank that gains, 0 where none does. The variant after it is the whole matrix.
  std::size_t most(std::size_t i) const { return measured_[i].size() - 1; }
  std::size_t rank_of(std::size_t i, std::size_t variant) const {
    return variant < most(i) ? variant + 1 : std::min(layout_[i].rows, layout_[i].cols);
  }
  // Of a square in the mean over gradients of shares of |x|^2.
  double weight_of(std::span<const float> gradient) const {
    const double square = kernels::sum_of_squares(gradient);
    return square > 0 ? 1 / (square * static_cast<double>(samples_.gradients.size())) : 0;
  }

  void measure(const Recipe& widest, const std::vector<float>& gradient) {
    const LastStep last = last_step(widest, samples_.model, gradient);
    const double weight = weight_of(gradient);
    for (std::size_t i = 0; i < layout_.size(); ++i) {
      const Slice& slice = layout_[i];
      const auto x = std::span(gradient).subspan(slice.offset, slice.count);
      if (most(i) == 0 || kernels::sum_of_squares(x) == 0) continue;
      const std::span q = last.state.at(std::string(kName) + ".start/" + slice.name);
      double missed = kernels::sum_of_squares(last.state.at(std::string(kName) + "/" + slice.name));
      for (std::size_t rank = most(i); rank > 0; --rank) {
        measured_[i][rank - 1].error += weight * missed;
        missed += kernels::sum_of_squares(q.subspan((rank - 1) * slice.cols, slice.cols));
      }
    }
  }

  Args args_;
  const Samples& samples_;
  Layout layout_;
};

}  // namespace

bool is_of_ranks(std::string_view spec) {
  const auto stages = split_chain(spec);
  return stages.size() == 1 && stages[0].name == kName;
}

std::vector<std::string> variants_of_ranks(std::string_view spec) {
  const Args args = args_of(spec);
  std::vector<std::string> variants;
  for (std::size_t rank = 1; rank <= kMostRank; ++rank) variants.push_back(spec_of(rank, args));
  return variants;
}

std::unique_ptr<Trials> try_ranks(const std::string& exchange, const Situation& situation) {
  return std::make_unique<RankTrials>(exchange, situation);
}

}  // namespace laconic
