// What a step will ask of links and processors, told without peers: an exchange foresees the legs
// of its units from frames that are really written.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "laconic/base/args.h"
#include "laconic/exchange/frames.h"
#include "laconic/layout/places.h"

namespace laconic {

// One leg of a unit. Bytes have the heads of messages in them.
struct ForeseenLeg {
  std::uint64_t sent = 0, messages = 0;  // by rank 0
  // What goes out and in through the link of a rank: in the mean over ranks, and for the rank that
  // has most of this leg. Where one rank has most of all legs, the mean is its own.
  double out = 0, in = 0, most_out = 0, most_in = 0;
  // What a rank does before the leg: entries it encodes, entries it adds up out of frames, floats
  // it adds up as they are.
  double encoded = 0, added = 0, summed = 0;
};

struct ForeseenUnit {
  std::vector<ForeseenLeg> legs = {};
  double added = 0, summed = 0;  // after the last leg
};

// An exchange that has no peers.
class Foresight {
 public:
  virtual ~Foresight() = default;

  virtual const Plan& plan() const = 0;  // whose slices units are made of
  virtual ForeseenUnit unit(Slices slices) = 0;
  virtual bool framed() const { return true; }  // as Exchange's
};

// Writes the frames of rank 0 as if there were others, all with gradients like its own.
class Rehearsal {
 public:
  // The gradient stays; it has the model's count. Plans, and whether tensors that are all zeros
  // rest, and the memory, as in Setup.
  Rehearsal(const Model& model, Plan plan, std::optional<Plan> down, int ranks,
            std::span<const float> gradient, bool zeros_rest = true, std::string memory = "none");

  // Bytes of the frame of these slices.
  std::uint64_t frame(const Plan& plan, Slices slices);
  // Bytes of the frame that brings back the sum over ranks of what was written last: where
  // operators draw, over some ranks with draws of their own, for sums of these have more levels
  // than theirs.
  std::uint64_t way_back(const Plan& up, const Plan& down, Slices slices);

  // Whether the slice holds nothing but zeros.
  bool zeros(const Slice& slice) const;

  const Plan plan;
  const std::optional<Plan> down;  // as Setup's
  const int ranks;
  const std::string memory;

 private:
  void write(const Plan& plan, Slices slices, std::size_t rank);
  Leg leg_of(const Plan& plan, std::uint64_t seed) const;
  bool rests(const Slice& slice) const;

  std::span<const float> gradient_;
  Places places_;
  std::vector<bool> rests_;  // by tensor
  Scratch scratch_;
  FrameOut out_, back_;
  FrameIn in_;
  Buffer written_, returned_;
  std::vector<float> sum_;
};

// How an exchange foresees: one line in its own file. The rehearsal stays.
struct ForesightInfo {
  std::string name;  // of the exchange
  std::function<std::unique_ptr<Foresight>(Rehearsal&, const Args&)> make;
};

struct RegisterForesight {
  explicit RegisterForesight(ForesightInfo info);
};

// Throws UsageError for an exchange that is none, or does not foresee anything.
std::unique_ptr<Foresight> foresee(std::string_view exchange, Rehearsal& rehearsal);

// The step whose frames are foreseen: late in training, so its number takes three bytes.
inline constexpr std::uint64_t kForeseenStep = 1'000'000;

inline std::size_t entries_of(const Plan& plan, Slices slices) {
  std::size_t entries = 0;
  for (const std::size_t i : slices) entries += plan.layout[i].count;
  return entries;
}

}  // namespace laconic
