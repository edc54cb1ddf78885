// auto: gather, sharded or summed, by the bytes that each would send.
//
// A frame of P bytes costs a rank (n - 1) P under gather, 2 (n - 1) / n P under the two others.
// summed adds what cannot be told from gather's, so it is taken where it sends less. sharded
// compresses sums once more, which adds noise and a second leg: it must send less than half. That
// is from 5 ranks on, and later for models so small that heads of frames count.
#include <algorithm>

#include "laconic/exchange/foresight.h"
#include "laconic/exchange/shards.h"
#include "laconic/exchange/two_way.h"

namespace laconic {
namespace {

constexpr double kFrameHead = 64, kSectionHead = 12;  // about what a frame has beside its sections

std::string chosen_for(const Plan& plan, const std::string& memory, int ranks) {
  double payload = 0;
  for (std::size_t i = 0; i < plan.layout.size(); ++i)
    payload += static_cast<double>(plan.op(i).max_size(plan.layout[i].count));
  const double n = ranks, slices = static_cast<double>(plan.layout.size());
  const double gather = (n - 1) * (payload + kFrameHead + kSectionHead * slices);
  const double pieces = 2 * (n - 1) / n * payload;
  if (std::ranges::all_of(plan.operators, &Operator::adds_up) && pieces < gather && ranks > 2)
    return "summed";
  const double sharded = pieces + 2 * (n - 1) * (kFrameHead + kSectionHead * slices);
  return 2 * sharded < gather && !adds_up_means(memory) ? "sharded" : "gather";
}

bool of_owners(const std::string& name) { return name.starts_with(kOfShard); }

// Which of the three it is may change with the number of ranks, and then what owners of shards owed
// goes to somebody, or there is nothing yet that they owe.
class Auto : public Around {
 public:
  Auto(std::unique_ptr<Exchange> inner, const Setup& setup)
      : Around(std::move(inner)), first_(setup.transport.rank() == 0) {}

  void load(const State& given) override {
    const State now = inner_->save();
    State state = given;
    const auto owners = [](const State& of) {
      return std::ranges::any_of(of, [](const auto& entry) { return of_owners(entry.first); });
    };
    if (owners(now) && !owners(state)) {
      for (const auto& [name, values] : now)
        if (of_owners(name)) state[name].assign(values.size(), 0.0F);
    } else if (!owners(now)) {
      std::erase_if(state, [&](const auto& entry) { return pass_on(entry, state); });
    }
    inner_->load(state);
  }

 private:
  // What all owners owed is a debt of rank 0. Where ranks keep no debts but a mean that all of them
  // know (ef21, diana), that mean lacks it: each h is now the mean of all, and so is theirs.
  // Whether somebody has taken it.
  bool pass_on(const std::pair<const std::string, std::vector<float>>& owed, State& state) const {
    const std::size_t slash = owed.first.find('/');
    if (!owed.first.starts_with(kOfAllShards) || slash == std::string::npos) return false;
    const std::string tensor = owed.first.substr(slash);
    for (auto& [name, values] : state) {
      if (!is(name, tensor, Kept::sum) || values.size() != owed.second.size()) continue;
      for (std::size_t i = 0; i < values.size() && first_; ++i) values[i] += owed.second[i];
      return true;
    }
    for (const auto& [name, values] : state) {
      if (!is(name, tensor, Kept::mean)) continue;
      const auto mean = state.find(name.substr(0, name.find('/')) + ".mean" + tensor);
      if (mean == state.end()) continue;
      mean->second = values;
      return true;
    }
    return false;
  }

  // Whether it is a rank's own array of this tensor ("/tensor") and kind.
  static bool is(const std::string& name, const std::string& tensor, Kept kept) {
    const std::size_t slash = std::min(name.find('/'), name.size());
    if (of_owners(name) || name.substr(slash) != tensor) return false;
    const StateRole* role = find_role(name.substr(0, slash));
    return role && role->kept == kept;
  }

  bool first_;
};

const RegisterExchange automatic{{
    .name = "auto",
    .summary = "gather, sharded or summed by bytes: summed where sections add up, sharded where it "
               "halves what gather sends (from 5 ranks on), else gather.",
    .paper = "none; Patarasuk and Yuan count bytes so",
    .parameters = {},
    .follows_warmup = true,
    .make = [](const Setup& setup, const Args&) -> std::unique_ptr<Exchange> {
      const std::string name = chosen_for(setup.plan, setup.memory, setup.transport.size());
      const auto at = std::ranges::find(exchanges(), name, &ExchangeInfo::name);
      return std::make_unique<Auto>(at->make(setup, Args(at->name, at->parameters, {})), setup);
    },
}};

const RegisterForesight foresight{{
    .name = "auto",
    .make = [](Rehearsal& rehearsal, const Args&) -> std::unique_ptr<Foresight> {
      return foresee(chosen_for(rehearsal.plan, rehearsal.memory, rehearsal.ranks), rehearsal);
    },
}};

}  // namespace
}  // namespace laconic
