// laconic bench codecs: how many numbers a second the codes write and read: every code of positions
// at several densities, every code of levels, and the Huffman code of bytes beside memcpy.
//
// Positions are those of entries chosen with one probability each, so bits can be held against the
// entropy of that choice. A round times every code once; the best round counts.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/bench_times.h"
#include "cli/command.h"
#include "cli/gradient.h"
#include "cli/text.h"
#include "laconic/base/errors.h"
#include "laconic/codecs/huffman.h"
#include "laconic/codecs/levels.h"

namespace laconic::cli {
namespace {

struct Options {
  std::size_t count = 25'000'000;
  unsigned repeats = 9;
  bool json = false;
};

// One code on one input. `each` numbers are written; a choice is what smallest_index takes to try
// all codes.
struct Row {
  std::string name, input;
  std::size_t numbers = 0, bytes = 0;
  double entropy = 0;  // bits per number; 0: not known
  Times write = {}, read = {};

  double bits() const {
    return numbers == 0 ? 0 : 8 * static_cast<double>(bytes) / static_cast<double>(numbers);
  }
  static double millions(double numbers, const Times& times) {
    return numbers * 1e-6 / times.best();
  }
};

// Bits per position of a choice with probability p each.
double entropy_of(double p) { return (-p * std::log2(p) - (1 - p) * std::log2(1 - p)) / p; }

class PositionRows {
 public:
  PositionRows(std::size_t count, double density) : space_{.count = count} {
    const auto least = static_cast<std::uint64_t>(std::ldexp(density, 63)) * 2;
    for (std::size_t i = 0; i < count; ++i)
      if (Key(7).bits(i) < least) positions_.push_back(static_cast<std::uint32_t>(i));
    if (positions_.empty()) positions_.push_back(0);
    for (const IndexCodec& codec : index_codecs())
      rows_.push_back({.name = codec.name,
                       .input = fmt::format("{:g} % of positions", 100 * density),
                       .numbers = positions_.size(),
                       .entropy = entropy_of(density)});
  }

  void round() {
    Buffer& out = bytes_;
    const auto kept = std::span<const std::uint32_t>(positions_);
    const auto read = read_.reset(kept.size());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const IndexCodec& codec = index_codecs()[i];
      out.clear();
      rows_[i].write.note(seconds([&] { codec.write(kept, space_, out); }));
      rows_[i].bytes = out.size();
      rows_[i].read.note(seconds([&] { codec.read(out.view(), space_, read); }));
      if (!std::ranges::equal(kept, read)) throw DataError(codec.name + " read other positions");
    }
    choice_.note(seconds([&] { keep(&smallest_index(kept, space_)); }));
  }

  const std::vector<Row>& rows() const { return rows_; }
  double choices() const { return Row::millions(static_cast<double>(positions_.size()), choice_); }

 private:
  IndexSpace space_;
  std::vector<std::uint32_t> positions_;
  std::vector<Row> rows_;
  Times choice_;
  Buffer bytes_;
  Positions read_;
};

// Normal numbers of a standard deviation of 1.2 as whole ones: what `grid` makes of a gradient.
std::vector<std::int8_t> made_up_levels(std::size_t count, Pool& pool) {
  std::vector<std::int8_t> levels(count);
  const std::vector<float> x = made_up_gradient(count, pool);
  std::ranges::transform(x, levels.begin(), [](float value) {
    return static_cast<std::int8_t>(std::clamp(std::lround(value * 120), -7L, 7L));
  });
  return levels;
}

class LevelRows {
 public:
  LevelRows(std::size_t count, Pool& pool) : levels_(made_up_levels(count, pool)), pool_(pool) {
    read_.resize(count);
    for (const LevelCodec& codec : level_codecs())
      if (codec.takes(kMost))
        rows_.push_back({.name = codec.name, .input = "levels up to 7", .numbers = count});
  }

  void round() {
    const LevelWork work{positions_, entropy_, pool_};
    const Levels levels{{.small = levels_.data()}, levels_.size(), kMost};
    const LevelsTo to{{.small = read_.data()}, read_.size(), kMost};
    auto row = rows_.begin();
    for (const LevelCodec& codec : level_codecs()) {
      if (!codec.takes(kMost)) continue;
      bytes_.clear();
      row->write.note(seconds([&] { codec.write(levels, bytes_, work); }));
      row->bytes = bytes_.size();
      row->read.note(seconds([&] { codec.read(bytes_.view(), to, work); }));
      if (read_ != levels_) throw DataError(codec.name + " read other levels");
      ++row;
    }
  }

  const std::vector<Row>& rows() const { return rows_; }

 private:
  static constexpr std::int32_t kMost = 7;
  std::vector<std::int8_t> levels_, read_;
  Pool& pool_;
  std::vector<Row> rows_;
  Positions positions_;
  Buffer bytes_;
  Entropy entropy_;
};

// Exponents of normal numbers, as natural compression sends them.
class HuffmanRow {
 public:
  HuffmanRow(std::size_t count, Pool& pool) : symbols_(count), read_(count) {
    const std::vector<float> x = made_up_gradient(count, pool);
    std::ranges::transform(x, symbols_.begin(), [](float value) {
      return static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(value) >> 23);
    });
    row_ = {.name = "huffman", .input = "exponents", .numbers = count};
    copy_ = {.name = "memcpy", .input = "exponents", .numbers = count, .bytes = count};
  }

  // In pieces, as `entropy` has them.
  void round() {
    constexpr std::size_t kPiece = std::size_t{1} << 17;
    row_.bytes = 0;
    double write = 0, read = 0;
    coded_.resize(huffman_room(kPiece));
    for (std::size_t from = 0; from < symbols_.size(); from += kPiece) {
      const std::size_t part = std::min(kPiece, symbols_.size() - from);
      std::size_t size = 0;
      write += seconds([&] { size = huffman_encode({&symbols_[from], part}, coded_.data()); });
      row_.bytes += size > 0 ? size : part;
      if (size > 0)
        read += seconds([&] { huffman_decode({coded_.data(), size}, {&read_[from], part}); });
    }
    row_.write.note(write);
    row_.read.note(read);
    const double copied = seconds([&] {
      std::memcpy(read_.data(), symbols_.data(), symbols_.size());
      keep(read_.data());
    });
    copy_.write.note(copied);
    copy_.read.note(copied);
  }

  std::vector<Row> rows() const { return {copy_, row_}; }

 private:
  std::vector<std::uint8_t> symbols_, read_, coded_;
  Row row_, copy_;
};

void print_row(const Row& row) {
  const auto numbers = static_cast<double>(row.numbers);
  fmt::print("{:<10} {:<20} {:>12.0f} {:>12.0f} {:>10.3f} {:>10}\n", row.name, row.input,
             Row::millions(numbers, row.write), Row::millions(numbers, row.read), row.bits(),
             row.entropy > 0 ? fmt::format("{:.3f}", row.entropy) : "");
}

Json to_json(const Row& row) {
  return {{"code", row.name},
          {"input", row.input},
          {"numbers", row.numbers},
          {"bits_per_number", row.bits()},
          {"entropy", row.entropy > 0 ? Json(row.entropy) : Json()},
          {"write_seconds", row.write.best()},
          {"write_spread", row.write.spread()},
          {"read_seconds", row.read.best()},
          {"read_spread", row.read.spread()}};
}

void bench(const Options& options, const Globals& globals) {
  if (options.count == 0 || options.repeats == 0)
    throw UsageError("--count and --repeats must be at least 1");
  Pool pool(globals.threads);
  std::vector<PositionRows> positions;
  for (const double density : {0.001, 0.01, 0.1}) positions.emplace_back(options.count, density);
  LevelRows levels(options.count, pool);
  HuffmanRow huffman(options.count, pool);
  for (unsigned round = 0; round < options.repeats; ++round) {
    show_progress(fmt::format("round {} of {}", round + 1, options.repeats));
    for (PositionRows& rows : positions) rows.round();
    levels.round();
    huffman.round();
  }
  show_progress("");
  Json json = {{"count", options.count}, {"repeats", options.repeats}};
  std::vector<Row> all;
  const auto take = [&](const std::vector<Row>& rows) {
    all.insert(all.end(), rows.begin(), rows.end());
  };
  for (const PositionRows& rows : positions) take(rows.rows());
  take(levels.rows());
  take(huffman.rows());
  for (const Row& row : all) json["codes"].push_back(to_json(row));
  for (const PositionRows& rows : positions)
    json["choices"].push_back({{"input", rows.rows()[0].input}, {"millions", rows.choices()}});
  if (options.json) return print_json(json);
  fmt::print("{} entries, best of {}; millions of numbers a second\n\n", with_commas(options.count),
             options.repeats);
  fmt::print("{:<10} {:<20} {:>12} {:>12} {:>10} {:>10}\n", "code", "input", "written", "read",
             "bits each", "entropy");
  for (const Row& row : all) print_row(row);
  fmt::print("\nmillions of positions a second whose smallest code is chosen:\n");
  for (const PositionRows& rows : positions)
    fmt::print("{:<31} {:>12.0f}\n", rows.rows()[0].input, rows.choices());
}

const RegisterCommand command{{
    .name = "bench codecs",
    .summary = "Times the codes of positions, of levels and of bytes.",
    .examples = {"laconic bench codecs", "laconic bench codecs --count 1000000 --json"},
    .attach =
        [](CLI::App& app) {
          const auto options = std::make_shared<Options>();
          app.add_option("--count", options->count, "Entries that positions are chosen from")
              ->capture_default_str();
          app.add_option("--repeats", options->repeats, "Rounds, of which the best counts")
              ->capture_default_str();
          app.add_flag("--json", options->json, "Print JSON");
          return [options](const Globals& globals) { bench(*options, globals); };
        },
}};

}  // namespace
}  // namespace laconic::cli
