// A memory that begins elsewhere than the model: over one rank's runs, one after the other.
#include <algorithm>

#include "laconic/base/errors.h"
#include "laconic/exchange/shards.h"

namespace laconic {
namespace {

// A stretch of one tensor that lies in the shard.
struct Stretch {
  std::size_t tensor;        // index in the model
  std::size_t from, length;  // within the tensor
};

class ShardMemory : public Memory {
 public:
  ShardMemory(std::string_view spec, const Model& model, const Plan& plan, const Shards& shards,
              int rank)
      : model_(model), places_(model) {
    Model shard;
    std::size_t count = 0;
    for (std::size_t run = 0; run < shards.owners.size(); ++run) {
      if (shards.owners[run] != rank) continue;
      const Slice all{.name = {},
                      .offset = shards.bounds[run],
                      .count = shards.bounds[run + 1] - shards.bounds[run]};
      runs_.push_back({all.offset, count});
      count += all.count;
      places_.each(all, [&](std::size_t tensor, std::size_t from, std::size_t length) {
        stretches_.push_back({tensor, from, length});
        shard.push_back({name_of(stretches_.size() - 1), {length}});
      });
    }
    memory_ = make_memory(spec, shard, plan);
  }

  void begin(const StepInfo& info) override { memory_->begin(apart(info)); }
  void turn(const StepInfo& info) override { memory_->turn(apart(info)); }
  Source source(const Slice& slice, const Floats& gradient) override {
    return memory_->source(moved(slice), gradient);
  }
  void sent(const Slice& slice, const Sent& sent) override { memory_->sent(moved(slice), sent); }
  void rest(const Slice& slice) override { memory_->rest(moved(slice)); }

  // Owners send something of every tensor that is averaged.
  void commit(const Tensors& tensors) override {
    committed_.clear();
    for (std::size_t i = 0; i < stretches_.size(); ++i)
      if (std::ranges::binary_search(tensors.averaged, stretches_[i].tensor))
        committed_.push_back(i);
    memory_->commit({committed_, committed_});
  }

  double residual_norm() const override { return memory_->residual_norm(); }

  State save() const override {
    State state;
    for (const auto& [name, values] : memory_->save()) {
      const std::size_t slash = name.find('/');
      const Stretch& stretch = stretches_[std::stoul(name.substr(slash + 1))];
      auto& whole = state[kOfShard + name.substr(0, slash + 1) + model_[stretch.tensor].name];
      whole.resize(places_.count(stretch.tensor));
      std::ranges::copy(values, whole.begin() + static_cast<std::ptrdiff_t>(stretch.from));
    }
    return state;
  }

  void load(const State& state) override {
    State shard;
    for (const auto& [name, values] : state) {
      const bool of_all = name.starts_with(kOfAllShards);
      const std::string inner = name.substr((of_all ? kOfAllShards : kOfShard).size());
      take(name, inner, values, of_all, shard);
    }
    memory_->load(shard);
  }

 private:
  struct Run {
    std::size_t first, place;  // in the model, in the shard
  };

  // Its entries have the positions of others in the model, which this rank's own memory draws at.
  static StepInfo apart(StepInfo info) {
    info.draws = info.draws.fork(0);
    return info;
  }

  // Of a stretch, in the shard's own state: its number.
  static std::string name_of(std::size_t stretch) { return std::to_string(stretch); }

  // Slices do not cross the ends of runs.
  Slice moved(Slice slice) const {
    const auto after = std::ranges::upper_bound(runs_, slice.offset, {}, &Run::first);
    const Run& run = *(after - 1);
    slice.offset = slice.offset - run.first + run.place;
    return slice;
  }

  // The shard's stretches of one tensor's array; a role has no slash.
  void take(const std::string& name, const std::string& inner, const std::vector<float>& values,
            bool of_all, State& shard) const {
    const std::size_t slash = inner.find('/');
    const auto tensor = std::ranges::find(model_, inner.substr(slash + 1), &Tensor::name);
    const auto index = static_cast<std::size_t>(tensor - model_.begin());
    const bool mine = std::ranges::find(stretches_, index, &Stretch::tensor) != stretches_.end();
    if (tensor == model_.end() || (!mine && !of_all))
      throw DataError("the state has '" + name + "', which is not remembered here");
    if (values.size() != tensor->count())
      throw DataError("the state's '" + name + "' has " + std::to_string(values.size()) +
                      " entries; the model's tensor has " + std::to_string(tensor->count()));
    std::size_t elsewhere = nonzero(values);
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
      if (stretches_[i].tensor != index) continue;
      const auto part = std::span(values).subspan(stretches_[i].from, stretches_[i].length);
      elsewhere -= nonzero(part);
      shard[inner.substr(0, slash + 1) + name_of(i)].assign(part.begin(), part.end());
    }
    if (!of_all && elsewhere > 0)
      throw DataError("the state's '" + name +
                      "' holds entries of another rank's shard: it was saved with another number "
                      "of ranks");
  }

  static std::size_t nonzero(std::span<const float> values) {
    return values.size() - static_cast<std::size_t>(std::ranges::count(values, 0.0F));
  }

  Model model_;
  Places places_;
  std::vector<Run> runs_;
  std::vector<Stretch> stretches_;
  std::unique_ptr<Memory> memory_;
  std::vector<std::size_t> committed_;
};

}  // namespace

std::unique_ptr<Memory> make_shard_memory(std::string_view spec, const Model& model,
                                          const Plan& plan, const Shards& shards, int rank) {
  return std::make_unique<ShardMemory>(spec, model, plan, shards, rank);
}

}  // namespace laconic
