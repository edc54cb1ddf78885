// Timing operators.
#include "cli/bench_speeds.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/array.h"
#include "cli/gradient.h"
#include "laconic/kernels/mixed.h"
#include "laconic/kernels/reduce.h"
#include "laconic/kernels/stream.h"

namespace laconic::cli {
namespace {

constexpr std::size_t kRanks = 4;
constexpr std::size_t kTimedEntries = 100'000;  // fewer are done again until there are as many

// The arrays all rounds share.
struct Arrays {
  explicit Arrays(std::vector<float> made_up)
      : x(std::move(made_up)),
        y(x.size()),
        kept(x.size(), 0.001F),
        left(x.size()),
        times(std::max<std::size_t>(1, kTimedEntries / x.size())) {}

  std::vector<float> x, y, kept, left;
  std::size_t times;
  std::array<Buffer, kRanks> sections;
  std::array<Decoder, kRanks> decoders;
};

// Seconds of one of several calls.
template <class Work>
double seconds_each(const Arrays& arrays, Work work) {
  return seconds([&] {
           for (std::size_t time = 0; time < arrays.times; ++time) work();
         }) /
         static_cast<double>(arrays.times);
}

double time_encode(const Speed& row, const Source& source, Arrays& arrays, Scratch& scratch) {
  Buffer& section = arrays.sections[0];
  return seconds_each(arrays, [&] {
    section.clear();
    if (!row.op.encode(source, section, make_keys(0, 0, 0), scratch).finite)
      throw DataError("the made-up array is not finite");
    keep(section.data());
  });
}

double time_four(const Speed& row, Arrays& arrays, Scratch& scratch) {
  const Keys keys = make_keys(0, 0, 0);
  const std::size_t size = arrays.y.size(), blocks = (size + kBlock - 1) / kBlock;
  for (std::size_t rank = 1; rank < kRanks; ++rank) {
    arrays.sections[rank].clear();
    arrays.sections[rank].append(arrays.sections[0].view());
  }
  const Decoder* all[kRanks];
  std::ranges::transform(arrays.decoders, all, [](const Decoder& decoder) { return &decoder; });
  return seconds_each(arrays, [&] {
    for (std::size_t rank = 0; rank < kRanks; ++rank)
      row.op.open(arrays.sections[rank].view(), size, keys, scratch, arrays.decoders[rank]);
    scratch.pool.each(blocks, [&](std::size_t block, unsigned) {
      const std::size_t from = block * kBlock, to = std::min(size, from + kBlock);
      sum_of(all, from, to, 0.25F, arrays.y.data() + from);
    });
    keep(arrays.y.data());
  });
}

// Onto entries that are in no cache: everything else was written in between.
double time_touch(Arrays& arrays) {
  constexpr std::size_t kAhead = 32;
  const std::vector<std::uint32_t> positions = arrays.decoders[0].positions();
  float* const y = arrays.left.data();
  return seconds_each(arrays, [&] {
    for (std::size_t i = 0; i < positions.size(); ++i) {
      if (i + kAhead < positions.size()) kernels::fetch(y + positions[i + kAhead]);
      y[positions[i]] += 1;
    }
    keep(y);
  });
}

void time_row(Speed& row, Arrays& arrays, Scratch& scratch) {
  const Source feedback{.fresh = std::span(arrays.x),
                        .kept = std::span(arrays.kept),
                        .left = std::span(arrays.left),
                        .hint = &row.hint};
  row.feedback.note(time_encode(row, feedback, arrays, scratch));
  row.encode.note(time_encode(row, {.fresh = std::span(arrays.x)}, arrays, scratch));
  row.bytes = arrays.sections[0].size();
  row.add.note(seconds_each(arrays, [&] {
    row.op.add(arrays.sections[0].view(), 1, arrays.y, make_keys(0, 0, 0), scratch);
    keep(arrays.y.data());
  }));
  row.four.note(time_four(row, arrays, scratch));
  if (arrays.decoders[0].sparse()) row.touch.note(time_touch(arrays));
}

void time_memory(Speeds& speeds, Arrays& arrays) {
  speeds.copy.note(seconds_each(arrays, [&] {
    std::memcpy(arrays.y.data(), arrays.x.data(), arrays.x.size() * sizeof(float));
    keep(arrays.y.data());
  }));
  std::uint32_t largest = 0;
  speeds.read.note(seconds_each(arrays, [&] {
    largest = kernels::largest_magnitude(arrays.x);
    keep(&largest);
  }));
  speeds.mix.note(seconds_each(arrays, [&] {
    kernels::leave(1, arrays.x.data(), arrays.kept.data(), arrays.x.size(),
                   arrays.x.size() >= kernels::kStreamed, arrays.left.data());
    keep(arrays.left.data());
  }));
}

void time_round(Speeds& speeds, Arrays& arrays, Scratch& scratch) {
  for (Speed& row : speeds.rows) {
    time_memory(speeds, arrays);
    time_row(row, arrays, scratch);
  }
}

// The operators, each by its one spelling and once.
std::vector<Speed> rows_of(const std::vector<std::string>& specs) {
  std::vector<Speed> rows;
  for (const std::string& spec : specs.empty() ? example_specs() : specs) {
    Operator op = parse_operator(spec);
    const auto known =
        std::ranges::find(rows, op.spec(), [](const Speed& row) { return row.op.spec(); });
    if (known == rows.end()) rows.push_back({std::move(op)});
  }
  return rows;
}

Json to_json(const Speed& row, const Speeds& speeds) {
  Json json = {{"spec", row.op.spec()},
               {"bits_per_entry", bits_per_entry(row.bytes, speeds.count)}};
  const auto put = [&](const std::string& name, const Times& times) {
    json[name + "_seconds"] = times.best();
    json[name + "_spread"] = times.spread();
    json[name + "_over_memcpy"] = times.best() / speeds.copy.best();
  };
  put("encode", row.encode);
  put("feedback", row.feedback);
  put("add", row.add);
  put("four", row.four);
  if (row.touch.any()) put("touch", row.touch);
  json["encode_share_of_floor"] = speeds.read.best() / row.encode.best();
  json["feedback_share_of_floor"] = speeds.mix.best() / row.feedback.best();
  return json;
}

}  // namespace

Speeds measure_speeds(const SpeedOptions& options, Scratch& scratch) {
  Speeds none{.rows = rows_of(options.specs), .count = options.count};
  Arrays arrays(made_up_input(options.input, options.count, scratch.pool));
  for (const Speed& row : none.rows) arrays.sections[0].reserve(row.op.max_size(options.count));

  Speeds warm_up = none, speeds = none;
  time_round(warm_up, arrays, scratch);
  for (unsigned round = 0; round < options.repeats; ++round) {
    show_progress(fmt::format("{} entries, round {} of {}", with_commas(options.count), round + 1,
                              options.repeats));
    time_round(speeds, arrays, scratch);
  }
  show_progress("");
  return speeds;
}

Json to_json(const Speeds& speeds) {
  Json json = {{"count", speeds.count},
               {"memcpy_seconds", speeds.copy.best()},
               {"memcpy_spread", speeds.copy.spread()},
               {"read_seconds", speeds.read.best()},
               {"read_spread", speeds.read.spread()},
               {"mix_seconds", speeds.mix.best()},
               {"operators", Json::array()}};
  for (const Speed& row : speeds.rows) json["operators"].push_back(to_json(row, speeds));
  return json;
}

}  // namespace laconic::cli
