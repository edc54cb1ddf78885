// The trainer's parts that need no network: batches, optimisers, schedules, metrics, checkpoints,
// data files.
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <set>
#include <system_error>

#include "laconic/base/file.h"
#include "laconic/exchange/conversation.h"
#include "laconic/trainer/batches.h"
#include "laconic/trainer/buckets.h"
#include "laconic/trainer/checkpoint.h"
#include "laconic/trainer/crew.h"
#include "laconic/trainer/data.h"
#include "laconic/trainer/exact.h"
#include "laconic/trainer/optimizer.h"
#include "laconic/trainer/schedule.h"
#include "tests/support.h"

namespace laconic::trainer {
namespace {

using laconic::testing::message_of;

std::filesystem::path fresh_folder(const std::string& name) {
  const auto path =
      std::filesystem::temp_directory_path() / ("laconic-" + std::to_string(getpid()) + "-" + name);
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

TEST(Batches, AnEpochDealsEveryImageAtMostOnce) {
  for (const Split split : {Split::reshuffled, Split::sharded}) {
    Batches batches(103, 4, 5, split, 1);
    EXPECT_EQ(batches.steps_per_epoch(), 5U);
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::multiset<std::uint32_t> seen;
      for (std::uint64_t step = 0; step < 5; ++step)
        for (std::size_t worker = 0; worker < 4; ++worker)
          for (const auto image : batches.at(epoch * 5 + step, worker)) seen.insert(image);
      EXPECT_EQ(seen.size(), 100U);
      EXPECT_EQ(std::set<std::uint32_t>(seen.begin(), seen.end()).size(), 100U);
      EXPECT_LT(*seen.rbegin(), 103U);
    }
  }
}

std::set<std::uint32_t> images_of(Split split, std::uint64_t epoch, std::size_t worker) {
  Batches batches(100, 4, 5, split, 7);
  std::set<std::uint32_t> images;
  for (std::uint64_t step = 0; step < 5; ++step) {
    const auto part = batches.at(epoch * 5 + step, worker);
    images.insert(part.begin(), part.end());
  }
  return images;
}

TEST(Batches, ShardedWorkersKeepTheirShareReshuffledOnesDoNot) {
  EXPECT_EQ(images_of(Split::sharded, 0, 2), images_of(Split::sharded, 1, 2));
  EXPECT_NE(images_of(Split::reshuffled, 0, 2), images_of(Split::reshuffled, 1, 2));
}

TEST(Batches, AStepDependsOnSeedAndNumberAloneNotOnWhatWasAskedBefore) {
  Batches forward(100, 4, 5, Split::reshuffled, 7), jump(100, 4, 5, Split::reshuffled, 7),
      other(100, 4, 5, Split::reshuffled, 8);
  for (std::uint64_t step = 0; step < 13; ++step) forward.at(step, 1);
  EXPECT_TRUE(std::ranges::equal(forward.at(13, 1), jump.at(13, 1)));
  EXPECT_FALSE(std::ranges::equal(forward.at(13, 1), other.at(13, 1)));
}

std::vector<std::uint8_t> ten_classes(std::size_t images) {
  std::vector<std::uint8_t> labels(images);
  for (std::size_t i = 0; i < images; ++i) labels[i] = static_cast<std::uint8_t>(i * 7 % 10);
  return labels;
}

// Everybody's images are somebody's, and nobody else's.
void expect_a_partition(const Batches& batches, std::size_t workers, std::size_t images) {
  std::multiset<std::uint32_t> all;
  for (std::size_t worker = 0; worker < workers; ++worker)
    all.insert(batches.of(worker).begin(), batches.of(worker).end());
  EXPECT_EQ(all.size(), images);
  EXPECT_EQ(std::set<std::uint32_t>(all.begin(), all.end()).size(), images);
}

TEST(Batches, ByClassesAWorkerHasFewOfThem) {
  const auto labels = ten_classes(1000);
  Batches batches(1000, 5, 8, Split::parse("classes:2"), 3, labels);
  expect_a_partition(batches, 5, 1000);
  for (std::size_t worker = 0; worker < 5; ++worker) {
    std::set<int> classes;
    for (const auto image : batches.of(worker)) classes.insert(labels[image]);
    EXPECT_EQ(classes.size(), 2U) << worker;
    EXPECT_EQ(batches.of(worker).size(), 200U);
    std::set<std::uint32_t> pool(batches.of(worker).begin(), batches.of(worker).end()), seen;
    for (std::uint64_t step = 0; step < 25; ++step)  // one pass
      for (const auto image : batches.at(step, worker)) {
        EXPECT_TRUE(pool.contains(image));
        EXPECT_TRUE(seen.insert(image).second) << "twice in a pass";
      }
    EXPECT_EQ(seen.size(), 200U);
    const std::vector<std::uint32_t> first(batches.at(0, worker).begin(),
                                           batches.at(0, worker).end());
    EXPECT_FALSE(std::ranges::equal(first, batches.at(25, worker)));
  }
}

// Shares of a class: the mean of their squares is (A + 1) / (n A + 1) over n workers, times n.
TEST(Batches, ByDirichletSharesAreAsUnequalAsTheNumberSays) {
  const auto labels = ten_classes(4000);
  for (const double number : {0.1, 1.0, 100.0}) {
    double squares = 0;
    constexpr int kSeeds = 40;
    for (int seed = 0; seed < kSeeds; ++seed) {
      Batches batches(4000, 4, 8, {Split::Kind::dirichlet, number},
                      static_cast<std::uint64_t>(seed), labels);
      if (seed == 0) expect_a_partition(batches, 4, 4000);
      for (std::size_t worker = 0; worker < 4; ++worker) {
        std::vector<double> share(10);
        for (const auto image : batches.of(worker)) share[labels[image]] += 1.0 / 400;
        for (const double s : share) squares += s * s / (10 * kSeeds);
      }
    }
    EXPECT_NEAR(squares, (number + 1) / (4 * number + 1), 0.04) << number;
  }
}

TEST(Batches, ByLabelAStepDependsOnItsNumberAlone) {
  const auto labels = ten_classes(1000);
  for (const char* split : {"classes:2", "dirichlet:0.5"}) {
    Batches forward(1000, 4, 8, Split::parse(split), 7, labels),
        jump(1000, 4, 8, Split::parse(split), 7, labels);
    for (std::uint64_t step = 0; step < 70; ++step) forward.at(step, step % 4);
    EXPECT_TRUE(std::ranges::equal(forward.at(70, 1), jump.at(70, 1))) << split;
  }
}

TEST(Split, ReadsWhatItSays) {
  for (const char* text : {"reshuffled", "sharded", "classes:2", "dirichlet:0.1"})
    EXPECT_EQ(Split::parse(text).text(), text);
  for (const char* text : {"", "classes", "classes:", "classes:0", "classes:1.5", "dirichlet:0",
                           "dirichlet:x", "sharded:2", "label"})
    EXPECT_EQ(
        message_of<UsageError>([&] { Split::parse(text); }),
        "no split '" + std::string(text) +
            "'; allowed: reshuffled, sharded, classes:K (K = 1 to 256, whole) and dirichlet:A "
            "(A = 0.001 to 1000)");
  EXPECT_NE(message_of<UsageError>([] {
              Batches(40, 4, 10, Split::parse("dirichlet:0.001"), 1, ten_classes(40));
            }).find("leaves a worker without a batch of 10"),
            std::string::npos);
}

TEST(Data, HeldOutImagesAreTrainingImages) {
  Data data{.name = "d", .train = {.rows = 1, .cols = 2, .pixels = {}, .labels = {}}, .test = {}};
  for (std::uint8_t i = 0; i < 100; ++i) {
    data.train.pixels.insert(data.train.pixels.end(), {i, static_cast<std::uint8_t>(i + 100)});
    data.train.labels.push_back(i % 10);
  }
  data.test = {.rows = 1, .cols = 2, .pixels = {255, 255}, .labels = {9}};
  hold_out(data, 30);
  EXPECT_EQ(data.train.count(), 70U);
  EXPECT_EQ(data.test.count(), 30U);
  EXPECT_EQ(data.name, "d, 30 held out");
  std::set<int> seen;
  for (const Images* images : {&data.train, &data.test})
    for (std::size_t i = 0; i < images->count(); ++i) {
      EXPECT_EQ(images->pixels[2 * i] + 100, images->pixels[2 * i + 1]);
      EXPECT_EQ(images->pixels[2 * i] % 10, images->labels[i]);
      seen.insert(images->pixels[2 * i]);
    }
  EXPECT_EQ(seen.size(), 100U);
  EXPECT_THROW(hold_out(data, 70), UsageError);
}

TEST(Batches, TooFewImagesAreRefused) {
  EXPECT_EQ(message_of<UsageError>([] { Batches(10, 4, 5, Split::reshuffled, 1); }),
            "4 workers with batches of 5 need more than the 10 images there are");
  EXPECT_THROW(Batches(10, 4, 0, Split::reshuffled, 1), UsageError);
}

const Model kModel = {{"a", {2}}, {"b", {1}}};

TEST(Optimizer, SgdByHand) {
  for (const bool nesterov : {false, true}) {
    const auto sgd =
        make_optimizer({.momentum = 0.5F, .nesterov = nesterov, .weight_decay = 0.25F}, kModel);
    std::vector<float> x = {1, 2, 4};
    const std::vector<float> g = {1, 0, -1};
    sgd->update(x, g, 0.5F);  // g + decay x = 1.25, 0.5, 0; v the same
    EXPECT_EQ(x, nesterov ? (std::vector<float>{0.0625F, 1.625F, 4})
                          : (std::vector<float>{0.375F, 1.75F, 4}));
  }
  const auto sgd = make_optimizer({.momentum = 0.5F}, kModel);
  std::vector<float> x = {0, 0, 0};
  for (int step = 0; step < 3; ++step) sgd->update(x, std::vector<float>{1, 1, 1}, 1);
  EXPECT_EQ(x[0], -(1 + 1.5F + 1.75F));
}

TEST(Optimizer, AdamWsFirstStepIsTheLearningRate) {
  const auto adam = make_optimizer({.kind = "adamw", .weight_decay = 0.1F}, kModel);
  std::vector<float> x = {1, 1, 1};
  adam->update(x, std::vector<float>{5, -0.001F, 0}, 0.01F);
  EXPECT_NEAR(x[0], 0.999 - 0.01, 1e-6);
  EXPECT_NEAR(x[1], 0.999 + 0.01, 1e-5);
  EXPECT_NEAR(x[2], 0.999, 1e-6);
}

TEST(Optimizer, StateGoesOn) {
  const std::vector<float> g = {1, 2, 3};
  for (const char* kind : {"sgd", "adamw"}) {
    const auto a = make_optimizer({.kind = kind}, kModel),
               b = make_optimizer({.kind = kind}, kModel);
    std::vector<float> x = {1, 2, 3};
    for (int step = 0; step < 3; ++step) a->update(x, g, 0.1F);
    b->load(a->save());
    auto y = x;
    a->update(x, g, 0.1F);
    b->update(y, g, 0.1F);
    EXPECT_EQ(x, y) << kind;
    EXPECT_THROW(b->load({{"velocity/a", {1}}}), DataError);
  }
  State state = make_optimizer({.kind = "adamw"}, kModel)->save();
  for (const std::vector<float>& updates : {std::vector<float>{1}, {0.5F, 0}, {-1, 0}, {NAN, 0}}) {
    state["adamw.updates"] = updates;
    EXPECT_THROW(make_optimizer({.kind = "adamw"}, kModel)->load(state), DataError);
  }
}

// Whatever it has seen, Inf too: after a reset it is as new.
TEST(Optimizer, ResetForgetsAll) {
  for (const char* kind : {"sgd", "adamw"}) {
    const auto fresh = make_optimizer({.kind = kind}, kModel),
               blown = make_optimizer({.kind = kind}, kModel);
    std::vector<float> x = {1, 2, 3}, y = x, lost = x;
    for (int step = 0; step < 9; ++step)
      blown->update(lost, std::vector<float>{3e38F, 3e38F, 3e38F}, 10);
    blown->reset();
    EXPECT_EQ(blown->save(), fresh->save()) << kind;
    for (int step = 0; step < 3; ++step) {
      fresh->update(x, std::vector<float>{1, 2, 3}, 0.1F);
      blown->update(y, std::vector<float>{1, 2, 3}, 0.1F);
    }
    EXPECT_EQ(x, y) << kind;
  }
}

// libm does not decide these bits; where it is right to the last place, so are they nearly.
TEST(Exact, PowersAndCosines) {
  for (const double base : {0.0, 0.5, 0.9, 0.999, 1.0})
    for (const std::uint64_t exponent : {0, 1, 2, 3, 10, 1000, 1'000'000})
      EXPECT_NEAR(power(base, exponent), std::pow(base, static_cast<double>(exponent)), 1e-12);
  EXPECT_EQ(power(0.5, 1000), 0x1p-1000);
  for (int i = 0; i <= 1000; ++i)
    EXPECT_NEAR(cosine(i / 1000.0), std::cos(std::numbers::pi * i / 1000), 1e-15) << i;
  EXPECT_EQ(cosine(0), 1);
  EXPECT_EQ(cosine(0.5), 0);
  EXPECT_EQ(cosine(1), -1);
}

// To the last bit, on every machine.
TEST(Exact, BitsAreThese) {
  EXPECT_EQ(power(0.9F, 1000), 0x1.fee3ca4486bc3p-153);
  EXPECT_EQ(cosine(0.1), 0x1.e6f0e134454ffp-1);
}

TEST(Optimizer, MistakesAreNamed) {
  EXPECT_EQ(message_of<UsageError>([] { make_optimizer({.kind = "adam"}, kModel); }),
            "no optimiser 'adam'; known: adamw sgd");
  EXPECT_THROW(make_optimizer({.momentum = 1}, kModel), UsageError);
  EXPECT_THROW(make_optimizer({.weight_decay = -1}, kModel), UsageError);
  EXPECT_THROW(check_schedule({.lr = 0}), UsageError);
  EXPECT_THROW(check_schedule({.decay = "exp"}), UsageError);
}

TEST(Schedule, WarmsUpAndDecays) {
  const Schedule linear{.lr = 1, .warmup = 4, .decay = "linear", .steps = 14},
      cosine{.lr = 1, .decay = "cosine", .steps = 10};
  EXPECT_FLOAT_EQ(linear.at(0), 0.2F);
  EXPECT_FLOAT_EQ(linear.at(3), 0.8F);
  EXPECT_FLOAT_EQ(linear.at(4), 1);
  EXPECT_FLOAT_EQ(linear.at(9), 0.5F);
  EXPECT_FLOAT_EQ(cosine.at(0), 1);
  EXPECT_FLOAT_EQ(cosine.at(5), 0.5F);
  EXPECT_FLOAT_EQ(Schedule{.lr = 3}.at(1000), 3);
}

Evaluation some_evaluation() {
  Evaluation e{.step = 7,
               .epoch = 0.1,
               .loss = 1.0 / 3,
               .test_loss = 2,
               .accuracy = 0.5,
               .residual_norm = 4,
               .model_norm = 5,
               .consensus_distance = 6,
               .neighbour_difference = 7,
               .skipped = 1,
               .totals = {}};
  e.totals = {.wire_bytes = 1,
              .dense_bytes = 3,
              .traffic_bytes = 2,
              .rounds = 4,
              .aside_bytes = 5,
              .aside_rounds = 6,
              .compute_seconds = 0.1,
              .compress_seconds = 0.2,
              .exchange_seconds = 0.3,
              .decompress_seconds = 0.4,
              .update_seconds = 0.5,
              .exposed_seconds = 0.9};
  return e;
}

TEST(Metrics, LinesAreReadBack) {
  const std::string line = write_evaluation(some_evaluation());
  EXPECT_EQ(write_evaluation(read_evaluation(line)), line);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_NE(line.find("\"exposed_seconds\":0.9"), std::string::npos) << line;
  for (const char* key :
       {"\"model_norm\":5", "\"consensus_distance\":6", "\"neighbour_difference\":7"})
    EXPECT_NE(line.find(key), std::string::npos) << line;
  EXPECT_THROW(read_evaluation("{}"), DataError);
}

TEST(Checkpoint, ComesBackWholeAndEveryDamageIsFound) {
  const auto folder = fresh_folder("checkpoint");
  const std::string path = folder / "checkpoint.lac";
  EXPECT_FALSE(read_checkpoint(path));
  Checkpoint c{.settings = "{}",
               .course = {.step = 12,
                          .loss_count = 3,
                          .skipped = 4,
                          .totals = some_evaluation().totals,
                          .evaluations = {some_evaluation()}},
               .loss_sums = {1.0 / 3, 2},
               .common = {{"parameters/a", {1, 2}}, {"optimizer:velocity/a", {3}}},
               .own = {{{"exchange:feedback/a", {5}}}, {}}};
  write_checkpoint(path, c);
  const auto back = read_checkpoint(path);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->course.step, 12U);
  EXPECT_EQ(write_totals(back->course.totals), write_totals(c.course.totals));
  EXPECT_EQ(back->loss_sums, c.loss_sums);
  EXPECT_EQ(back->common, c.common);
  EXPECT_EQ(back->own, c.own);
  EXPECT_EQ(write_evaluation(back->course.evaluations.at(0)),
            write_evaluation(c.course.evaluations[0]));

  const Buffer good = read_file(path);
  for (std::size_t i = 0; i < good.size(); ++i) {
    Buffer bad;
    bad.append(good.view());
    bad.data()[i] ^= 0x20;
    write_file(path, bad.view());
    EXPECT_THROW(read_checkpoint(path), DataError) << i;
  }
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{5}, good.size() / 2, good.size() - 1}) {
    write_file(path, good.view().first(size));
    EXPECT_THROW(read_checkpoint(path), DataError) << size;
  }
  std::filesystem::remove_all(folder);
}

// Buckets follow the model from its end, and are full in that order whatever order tensors come in.
TEST(Buckets, AreFullInOneOrder) {
  const Model model = {{"a", {100}}, {"b", {10}}, {"c", {300}}, {"d", {1}}, {"e", {2}}};
  using Lists = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(Buckets(model, 0).all(), (Lists{{4, 3, 2, 1, 0}}));
  EXPECT_EQ(Buckets(model, 1).all(), (Lists{{4}, {3}, {2}, {1}, {0}}));
  EXPECT_EQ(Buckets(model, 400).all(), (Lists{{4, 3, 2}, {1, 0}}));
  EXPECT_EQ(Buckets({}, 400).all(), Lists());
  for (const std::uint64_t bytes : {0, 1, 12, 400}) {
    Buckets buckets(model, bytes);
    std::vector<std::size_t> order = {0, 1, 2, 3, 4};
    do {
      Lists full;
      buckets.begin();
      for (std::size_t i = 0; i < order.size(); ++i) {
        buckets.ready(order[i], [&](std::span<const std::size_t> bucket) {
          full.emplace_back(bucket.begin(), bucket.end());
          for (const std::size_t tensor : bucket)  // all of it has come
            EXPECT_LE(std::ranges::find(order, tensor) - order.begin(), static_cast<long>(i));
        });
      }
      const auto put = [&](std::span<const std::size_t> bucket) {
        full.emplace_back(bucket.begin(), bucket.end());
      };
      buckets.rest(put);
      EXPECT_EQ(full, buckets.all());
      full.clear();
      buckets.begin();
      buckets.ready(order[0], put);
      buckets.rest(put);
      EXPECT_EQ(full, buckets.all());
    } while (std::ranges::next_permutation(order).found);
  }
}

// Some worker cannot be started: the others are told that it has left, end, and one sentence says
// so.
TEST(Crew, AThreadThatCannotBeStartedEndsAll) {
  for (const std::size_t able : {0, 1, 3}) {
    std::size_t started = 0;
    const auto start = [&](std::function<void()> work) {
      if (started == able)
        throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
      ++started;
      return std::jthread(std::move(work));
    };
    std::atomic<std::size_t> told = 0;
    const auto wait_for_all = [&](Transport& end) {
      try {
        std::vector<float> values(8);
        Conversation(end, Deadline::in(3600, "test")).all_reduce(values);
      } catch (const TransportError&) {
        ++told;
        throw;
      }
    };
    EXPECT_NE(message_of<SystemError>([&] {
                run_crew(make_thread_transports(5), wait_for_all, start);
              }).find("only " + std::to_string(able) + " of 5 workers could be started: "),
              std::string::npos);
    EXPECT_EQ(told, able);
  }
}

TEST(Crew, TheErrorThatStartedItIsThrown) {
  EXPECT_EQ(message_of<DataError>([] {
              run_crew(make_thread_transports(3), [](Transport& end) {
                if (end.rank() == 2) throw DataError("the cause");
                std::vector<float> values(8);
                Conversation(end, Deadline::in(3600, "test")).all_reduce(values);
              });
            }),
            "the cause");
}

// IDX files of `count` images of 2 x 2.
void write_idx(const std::filesystem::path& folder, const std::string& prefix, std::uint8_t count,
               bool gzip) {
  const auto put = [&](const std::string& name, std::vector<std::uint8_t> bytes) {
    const std::string path = folder / (name + (gzip ? ".gz" : ""));
    if (!gzip) return write_file(path, bytes);
    const gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
  };
  std::vector<std::uint8_t> images = {0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, 2, 0, 0, 0, 2},
                            labels = {0, 0, 8, 1, 0, 0, 0, count};
  for (std::uint8_t i = 0; i < count; ++i) {
    images.insert(images.end(), 4, i);
    labels.push_back(i % 10);
  }
  put(prefix + "-images-idx3-ubyte", images);
  put(prefix + "-labels-idx1-ubyte", labels);
}

TEST(Data, IdxFilesPlainAndGzipped) {
  for (const bool gzip : {false, true}) {
    const auto folder = fresh_folder("idx");
    write_idx(folder, "train", 12, gzip);
    write_idx(folder, "t10k", 3, gzip);
    const Data data = load_data(folder);
    EXPECT_EQ(data.train.count(), 12U);
    EXPECT_EQ(data.test.count(), 3U);
    EXPECT_EQ(data.train.rows, 2U);
    EXPECT_EQ(data.train.pixels[4 * 11], 11);
    EXPECT_EQ(data.train.labels[11], 1);
    std::filesystem::remove_all(folder);
  }
}

TEST(Data, WrongFilesAreRefusedInWords) {
  const auto folder = fresh_folder("bad");
  EXPECT_NE(message_of<UsageError>([&] { load_data(folder); }).find("no train-images-idx3-ubyte"),
            std::string::npos);
  EXPECT_NE(message_of<UsageError>([&] { load_data("cifar"); }).find("no data set 'cifar'"),
            std::string::npos);
  write_idx(folder, "train", 12, false);
  write_idx(folder, "t10k", 3, false);
  const std::string images = folder / "train-images-idx3-ubyte",
                    labels = folder / "train-labels-idx1-ubyte";
  const Buffer good = read_file(images), good_labels = read_file(labels);
  const auto refused = [&](ByteView bytes, const std::string& path) {
    write_file(path, bytes);
    return message_of<DataError>([&] { load_data(folder); });
  };
  EXPECT_NE(refused(good.view().first(30), images).find("does not fit"), std::string::npos);
  EXPECT_NE(refused(good.view().first(3), images).find("not an IDX file"), std::string::npos);
  EXPECT_NE(refused(std::vector<std::uint8_t>{0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255,
                                              255, 255, 255, 255, 1},
                    images)
                .find("does not fit"),
            std::string::npos);
  write_file(images, good.view());
  Buffer bad;
  bad.append(good_labels.view());
  bad.data()[10] = 77;
  EXPECT_NE(refused(bad.view(), labels).find("label 77"), std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace laconic::trainer
