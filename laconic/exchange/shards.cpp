// Where shards end, and memories that begin elsewhere than the model.
#include "laconic/exchange/shards.h"

#include <algorithm>

#include "laconic/base/errors.h"

namespace laconic {
namespace {

// Where the p-th of n equal parts of `total` begins; no product here can overflow.
std::size_t part_of(std::size_t total, std::size_t p, std::size_t n) {
  return total / n * p + total % n * p / n;
}

// The end of a slice that is nearest to `at`, or `at` itself in a slice of more than `most`.
std::size_t bound_near(const Layout& layout, std::size_t at, std::size_t most) {
  const auto inside = std::ranges::find_if(
      layout, [&](const Slice& slice) { return slice.offset + slice.count > at; });
  if (inside == layout.end() || inside->count > most) return at;
  const std::size_t end = inside->offset + inside->count;
  return at - inside->offset <= end - at ? inside->offset : end;
}

Slice part_of(const Slice& slice, std::size_t from, std::size_t to) {
  if (from == slice.offset && to == slice.offset + slice.count) return slice;
  return {slice.name + "@" + std::to_string(from - slice.offset), from, to - from, to - from, 1};
}

// What of a tensor lies in the shard; nothing if `length` is 0.
struct Part {
  std::string tensor;
  std::size_t count;         // of the whole tensor
  std::size_t from, length;  // within the tensor
};

class ShardMemory : public Memory {
 public:
  ShardMemory(std::string_view spec, const Model& model, const Plan& plan, const Bounds& bounds,
              int rank)
      : first_(bounds[static_cast<std::size_t>(rank)]),
        count_(bounds[static_cast<std::size_t>(rank) + 1] - first_) {
    std::size_t offset = 0;
    Model shard;
    for (const Tensor& tensor : model) {
      const std::size_t count = tensor.count(), from = std::max(offset, first_),
                        to = std::min(offset + count, first_ + count_);
      const std::size_t length = from < to ? to - from : 0;
      parts_.push_back({tensor.name, count, length > 0 ? from - offset : 0, length});
      if (length > 0) shard.push_back({tensor.name, {length}});
      offset += count;
    }
    memory_ = make_memory(spec, shard, plan);
  }

  void begin(std::span<const float> gradient, const StepInfo& info) override {
    memory_->begin(gradient.subspan(first_, count_), info);
  }
  std::span<const float> compensate(const Slice& slice, std::span<const float> gradient,
                                    const StepInfo& info) override {
    return memory_->compensate(moved(slice), gradient, info);
  }
  void absorb(const Slice& slice, const Sent& sent) override {
    memory_->absorb(moved(slice), sent);
  }
  void commit() override { memory_->commit(); }
  void rollback() override { memory_->rollback(); }
  double residual_norm() const override { return memory_->residual_norm(); }

  State save() const override {
    State state;
    for (const auto& [name, values] : memory_->save()) {
      const Part& part = part_named(name);
      auto& whole = state[kOfShard + name];
      whole.resize(part.count);
      std::ranges::copy(values, whole.begin() + static_cast<std::ptrdiff_t>(part.from));
    }
    return state;
  }

  void load(const State& state) override {
    State shard;
    for (const auto& [name, values] : state) {
      const bool of_all = name.starts_with(kOfAllShards);
      const std::string inner = name.substr((of_all ? kOfAllShards : kOfShard).size());
      const Part& part = part_named(inner);
      if (of_all && part.length == 0) continue;
      if (part.length == 0) throw foreign(inner);
      if (values.size() != part.count)
        throw DataError("the state's '" + name + "' has " + std::to_string(values.size()) +
                        " entries; the model's tensor has " + std::to_string(part.count));
      const auto inside = std::span(values).subspan(part.from, part.length);
      if (!of_all && zeros(inside) + (part.count - part.length) != zeros(values))
        throw DataError("the state's '" + name +
                        "' holds entries of another rank's shard: it was saved with another number "
                        "of ranks");
      shard[inner].assign(inside.begin(), inside.end());
    }
    memory_->load(shard);
  }

 private:
  Slice moved(Slice slice) const {
    slice.offset -= first_;
    return slice;
  }

  static DataError foreign(const std::string& name) {
    return DataError("the state has '" + kOfShard + name + "', which is not remembered here");
  }

  static std::size_t zeros(std::span<const float> values) {
    return static_cast<std::size_t>(std::ranges::count(values, 0.0F));
  }

  // Of the tensor in "role/tensor"; a role has no slash.
  const Part& part_named(const std::string& name) const {
    const auto at = std::ranges::find(parts_, name.substr(name.find('/') + 1), &Part::tensor);
    if (at == parts_.end()) throw foreign(name);
    return *at;
  }

  std::size_t first_, count_;
  std::vector<Part> parts_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace

Bounds even_bounds(const Layout& layout, std::size_t ranks) {
  const std::size_t total = layout.empty() ? 0 : layout.back().offset + layout.back().count;
  const std::size_t most = layout.size() < ranks ? 0 : 2 * (total / ranks);
  Bounds bounds;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    bounds.push_back(bound_near(layout, part_of(total, rank, ranks), most));
  bounds.push_back(total);
  return bounds;
}

Bounds one_owner(std::size_t count, std::size_t ranks) {
  Bounds bounds(ranks + 1, count);
  bounds[0] = 0;
  return bounds;
}

Plan cut_at(const Plan& plan, const Bounds& bounds) {
  Plan cut{.layout = {}, .operators = plan.operators, .operator_of = {}};
  for (std::size_t i = 0; i < plan.layout.size(); ++i) {
    const Slice& slice = plan.layout[i];
    const std::size_t end = slice.offset + slice.count;
    for (std::size_t from = slice.offset; from < end;) {
      const auto next = std::ranges::upper_bound(bounds, from);
      const std::size_t to = next == bounds.end() ? end : std::min(end, *next);
      cut.layout.push_back(part_of(slice, from, to));
      cut.operator_of.push_back(plan.operator_of[i]);
      from = to;
    }
  }
  return cut;
}

SliceRange shard_of(const Plan& plan, const Bounds& bounds, int rank) {
  const auto index_at = [&](std::size_t entry) {
    return static_cast<std::size_t>(
        std::ranges::lower_bound(plan.layout, entry, {}, &Slice::offset) - plan.layout.begin());
  };
  const auto r = static_cast<std::size_t>(rank);
  return {index_at(bounds[r]), index_at(bounds[r + 1])};
}

std::unique_ptr<Memory> make_shard_memory(std::string_view spec, const Model& model,
                                          const Plan& plan, const Bounds& bounds, int rank) {
  return std::make_unique<ShardMemory>(spec, model, plan, bounds, rank);
}

}  // namespace laconic
