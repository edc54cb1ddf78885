// A recipe at work on one rank, around an optimiser that is the host's own:
//
//   info = {.step = t, .lr = lr};
//   if (method->before_update(x, g, info).finite) optimiser.update(x, g);
//   info.momentum = optimiser.momentum();
//   method->after_update(x, info);
//   if (method->set_back()) optimiser.reset();
#pragma once

#include "laconic/recipes/recipe.h"

namespace laconic {

// A method's state and the model, to go on from. `common` is the same on all ranks. The optimiser's
// state is the host's to save: the same on all ranks where gradients are averaged, each rank's own
// elsewhere.
struct Saved {
  State common, own;
};

// What names of the exchange's state begin with in Saved::own.
inline constexpr const char* kExchange = "exchange:";

class Method {
 public:
  virtual ~Method() = default;

  // What averages gradients; null where they stay with their rank. Parts may be submitted to it
  // while they are being computed; its finish then stands for before_update.
  virtual Aggregator* gradients() { return nullptr; }

  // In: this rank's model and its gradient there. Out: what the optimiser is to work with. When
  // stats.finite is false it must not: the gradient holds NaN or Inf, on all ranks where gradients
  // are averaged, on this one where they are not. When it throws, all is as before, and it may be
  // called again.
  virtual StepStats before_update(std::span<float> parameters, std::span<float> gradient,
                                  const StepInfo& info) = 0;

  // Once in every step, after the optimiser's update or what would have been one. `info.momentum`
  // is the optimiser's, for memories that mask it. When it throws, all is as before, and it may be
  // called again without another update.
  virtual StepStats after_update(std::span<float> parameters, const StepInfo& info) = 0;

  // After the last step: ends a round that is under way. With info.plain all that is owed goes with
  // it. (Where gradients are averaged, what is owed is the mean that before_update makes of a
  // gradient of zeros with info.plain, for one more update.)
  virtual StepStats finish(std::span<float> /*parameters*/, const StepInfo& /*info*/) { return {}; }

  // Whether the last round was undone, because some rank's model had run away to Inf or NaN: the
  // model is the last common one again. The optimiser must then begin anew, on all ranks: what blew
  // the model up is in its moments.
  virtual bool set_back() const { return false; }

  // After a rank was lost: the others go on over a transport that connects just them, in the order
  // of their ranks, with all that they remember. All of them call it, with the agreement that the
  // method was made from; the transport before is not used any more. A step or round that some of
  // them are in doubt about, and others have made, is made: committed says so, and of a round the
  // parameters are those after it. Otherwise the step that failed is to be made again. When it
  // throws, all is as before, and it may be tried again among fewer.
  virtual Outcome regroup(const Agreement& agreement, std::span<float> parameters,
                          Transport& among);

  // Whether all ranks hold the same model now, bit for bit.
  virtual bool replicas_equal() const = 0;

  // Length of what is still owed to the model.
  virtual double residual_norm() const = 0;

  virtual Saved save(std::span<const float> parameters) const = 0;
  // Throws DataError unless it was saved by the same method for this model.
  virtual void load(const Saved& saved, std::span<float> parameters) = 0;
};

// `start` is the model before the first step, the same on all ranks, which compare its checksums.
// It may be empty where there are no local steps: then nothing is compared. Throws what `agree`
// throws, and UsageError for a recipe that cannot be.
std::unique_ptr<Method> make_method(const Agreement& agreement, std::span<const float> start,
                                    Transport& transport);

// What two parts of a step cost together.
StepStats sum_of(const StepStats& a, const StepStats& b);

// Throws UsageError when the recipe's memory carries the momentum and the optimiser has one too.
void require_one_momentum(const Recipe& recipe, bool optimizer_has_momentum);

}  // namespace laconic
