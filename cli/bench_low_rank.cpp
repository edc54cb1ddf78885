// laconic bench low-rank: the products of PowerSGD and PowerGossip, M Q, M^T P and M += P Q^T,
// beside OpenBLAS in the same rounds, where the machine has it. It is opened while the program
// runs: nothing here links it.
#include <dlfcn.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/bench_times.h"
#include "cli/command.h"
#include "cli/gradient.h"
#include "cli/text.h"
#include "laconic/base/errors.h"
#include "laconic/kernels/cpu.h"
#include "laconic/kernels/low_rank.h"

namespace laconic::cli {
namespace {

struct Options {
  std::size_t rows = 2048, cols = 4608;
  std::vector<std::size_t> ranks = {1, 2, 4, 8};
  unsigned repeats = 15;
  bool json = false;
};

// CBLAS's constants and the two functions that are compared.
enum : int { kRowMajor = 101, kNoTranspose = 111, kTranspose = 112 };
struct Blas {
  using Gemv = void (*)(int order, int transpose, int m, int n, float alpha, const float* a,
                        int lda, const float* x, int incx, float beta, float* y, int incy);
  using Gemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                        float alpha, const float* a, int lda, const float* b, int ldb, float beta,
                        float* c, int ldc);
  Gemv gemv = nullptr;
  Gemm gemm = nullptr;

  explicit operator bool() const { return gemv && gemm; }
};

// On one thread, as the products are. The library stays open as long as the program runs.
Blas open_blas() {
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library) return {};
  const auto find = [&]<class Function>(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
  };
  Blas blas;
  void (*set_threads)(int) = nullptr;
  find("cblas_sgemv", blas.gemv);
  find("cblas_sgemm", blas.gemm);
  find("openblas_set_num_threads", set_threads);
  if (set_threads) set_threads(1);
  return blas;
}

constexpr std::array<const char*, 3> kProducts = {"M Q", "M^T P", "+= P Q^T"};

struct Row {
  std::size_t rank = 0;
  std::array<Times, 3> ours = {}, theirs = {};

  static double total(const std::array<Times, 3>& times) {
    return times[0].best() + times[1].best() + times[2].best();
  }
};

struct Arrays {
  std::vector<float> matrix = {}, product = {}, left = {}, right = {};
  Array<float> spare = {};
};

void time_ours(Row& row, const MatrixShape& shape, Arrays& a) {
  const std::span left(a.left.data(), shape.rows * shape.rank);
  const std::span right(a.right.data(), shape.cols * shape.rank);
  row.ours[0].note(seconds([&] { multiply(a.matrix, shape, right, left); }));
  row.ours[1].note(seconds([&] { multiply_transposed(a.matrix, shape, left, right, a.spare); }));
  row.ours[2].note(seconds(
      [&] { add_product(left, right, shape, 1, std::span(a.product).first(a.matrix.size())); }));
  keep(a.product.data());
}

// Factors are columns one after the other: row by row, their transpose.
void time_theirs(Row& row, const Blas& blas, const MatrixShape& shape, Arrays& a) {
  const int rows = static_cast<int>(shape.rows), cols = static_cast<int>(shape.cols),
            rank = static_cast<int>(shape.rank);
  float *m = a.matrix.data(), *p = a.left.data(), *q = a.right.data(), *out = a.product.data();
  row.theirs[0].note(seconds([&] {
    if (rank == 1)
      blas.gemv(kRowMajor, kNoTranspose, rows, cols, 1, m, cols, q, 1, 0, p, 1);
    else
      blas.gemm(kRowMajor, kNoTranspose, kTranspose, rows, rank, cols, 1, m, cols, q, cols, 0,
                a.product.data(), rank);
  }));
  row.theirs[1].note(seconds([&] {
    if (rank == 1)
      blas.gemv(kRowMajor, kTranspose, rows, cols, 1, m, cols, p, 1, 0, q, 1);
    else
      blas.gemm(kRowMajor, kTranspose, kNoTranspose, cols, rank, rows, 1, m, cols, a.product.data(),
                rank, 0, out + rows * rank, rank);
  }));
  row.theirs[2].note(seconds([&] {
    blas.gemm(kRowMajor, kTranspose, kNoTranspose, rows, cols, rank, 1, p, rows, q, cols, 1, out,
              cols);
  }));
  keep(out);
}

// Factors that stay within bounds however often they are multiplied.
void draw_factors(Arrays& arrays) {
  draw_normal(Key(3), arrays.left);
  draw_normal(Key(4), arrays.right);
}

void print_table(const std::vector<Row>& rows, const Options& options, const Times& copy,
                 bool beside) {
  fmt::print("{} x {}, cpu {}, one thread, best of {}; memcpy {:.3f} ms\n\n", options.rows,
             options.cols, cpu_in_use(), options.repeats, copy.best() * 1e3);
  fmt::print("{:<5} {:<9} {:>10} {:>14} {:>10}\n", "rank", "product", "ms",
             beside ? "OpenBLAS ms" : "", beside ? "ratio" : "");
  for (const Row& row : rows) {
    const auto line = [&](const char* name, double ours, double theirs) {
      fmt::print("{:<5} {:<9} {:>10.3f}", row.rank, name, ours * 1e3);
      if (beside) fmt::print(" {:>14.3f} {:>10.2f}", theirs * 1e3, ours / theirs);
      fmt::print("\n");
    };
    for (std::size_t i = 0; i < kProducts.size(); ++i)
      line(kProducts[i], row.ours[i].best(), beside ? row.theirs[i].best() : 0);
    line("all", Row::total(row.ours), beside ? Row::total(row.theirs) : 0);
  }
  if (!beside) fmt::print("\nlibopenblas.so.0 is not on this machine: nothing to compare with\n");
}

Json to_json(const Row& row, bool beside) {
  Json json = {{"rank", row.rank}, {"seconds", Row::total(row.ours)}};
  for (std::size_t i = 0; i < kProducts.size(); ++i)
    json["products"].push_back({{"product", kProducts[i]},
                                {"seconds", row.ours[i].best()},
                                {"openblas", beside ? Json(row.theirs[i].best()) : Json()}});
  json["openblas"] = beside ? Json(Row::total(row.theirs)) : Json();
  return json;
}

void check(const Options& options) {
  constexpr std::size_t kMost = 1 << 20;
  if (options.rows == 0 || options.cols == 0 || options.rows > kMost || options.cols > kMost)
    throw UsageError("--rows and --cols must be 1 to 1048576");
  if (options.repeats == 0) throw UsageError("--repeats must be at least 1");
  for (const std::size_t rank : options.ranks)
    if (rank == 0 || rank > std::min(options.rows, options.cols))
      throw UsageError("a rank of " + std::to_string(rank) + "; allowed: 1 up to rows and columns");
}

void bench(const Options& options, const Globals& globals) {
  check(options);
  const Blas blas = open_blas();
  Pool pool(globals.threads);
  const std::size_t most = std::ranges::max(options.ranks);
  Arrays arrays{.matrix = made_up_gradient(options.rows * options.cols, pool)};
  arrays.product.resize(std::max(arrays.matrix.size(), (options.rows + options.cols) * most));
  arrays.left.resize(options.rows * most);
  arrays.right.resize(options.cols * most);
  std::vector<Row> rows;
  for (const std::size_t rank : options.ranks) rows.push_back({.rank = rank});
  Times copy;
  for (unsigned round = 0; round < options.repeats; ++round)
    for (Row& row : rows) {
      show_progress(fmt::format("round {} of {}", round + 1, options.repeats));
      copy.note(seconds([&] {
        std::memcpy(arrays.product.data(), arrays.matrix.data(),
                    arrays.matrix.size() * sizeof(float));
        keep(arrays.product.data());
      }));
      draw_factors(arrays);
      time_ours(row, {options.rows, options.cols, row.rank}, arrays);
      draw_factors(arrays);
      if (blas) time_theirs(row, blas, {options.rows, options.cols, row.rank}, arrays);
    }
  show_progress("");
  const bool beside = static_cast<bool>(blas);
  if (!options.json) return print_table(rows, options, copy, beside);
  Json json = {{"rows", options.rows},
               {"cols", options.cols},
               {"cpu", cpu_in_use()},
               {"repeats", options.repeats},
               {"memcpy_seconds", copy.best()}};
  for (const Row& row : rows) json["ranks"].push_back(to_json(row, beside));
  print_json(json);
}

const RegisterCommand command{{
    .name = "bench low-rank",
    .summary = "Times the products of PowerSGD and PowerGossip beside OpenBLAS.",
    .examples = {"laconic bench low-rank", "laconic bench low-rank --rank 4 --rows 512 --json"},
    .attach =
        [](CLI::App& app) {
          const auto options = std::make_shared<Options>();
          app.add_option("--rows", options->rows, "Rows of the matrix")->capture_default_str();
          app.add_option("--cols", options->cols, "Columns of the matrix")->capture_default_str();
          app.add_option("--rank", options->ranks, "Ranks, as in 1,4")
              ->delimiter(',')
              ->capture_default_str();
          app.add_option("--repeats", options->repeats, "Rounds, of which the best counts")
              ->capture_default_str();
          app.add_flag("--json", options->json, "Print JSON");
          return [options](const Globals& globals) { bench(*options, globals); };
        },
}};

}  // namespace
}  // namespace laconic::cli
