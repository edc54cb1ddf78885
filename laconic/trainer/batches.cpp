// Shuffles by key.
#include "laconic/trainer/batches.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <numeric>

#include "laconic/base/errors.h"

namespace laconic::trainer {
namespace {

// Fisher-Yates; the upper half of a 64-bit product picks without a division, with a bias below
// 2^-32.
void permute(std::span<std::uint32_t> order, Key key) {
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>((key.bits(i) >> 32) * i >> 32)]);
}

// The images of each class, in order.
std::vector<std::vector<std::uint32_t>> by_class(std::span<const std::uint8_t> labels) {
  std::vector<std::vector<std::uint32_t>> classes;
  for (std::uint32_t image = 0; image < labels.size(); ++image) {
    if (labels[image] >= classes.size()) classes.resize(labels[image] + std::size_t{1});
    classes[labels[image]].push_back(image);
  }
  return classes;
}

// Uniform in (0, 1).
double uniform(const Key& key, std::uint64_t i) {
  return (static_cast<double>(key.bits(i) >> 11) + 0.5) * 0x1p-53;
}

// The logarithm of a Gamma draw, which for a small shape is too small a number itself: Marsaglia
// and Tsang for shape + 1, and U^(1 / shape).
double log_gamma_draw(double shape, const Key& key) {
  const double d = shape + 1 - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (std::uint64_t i = 1;; i += 3) {
    const double normal = std::sqrt(-2 * std::log(uniform(key, i))) *
                          std::cos(2 * std::numbers::pi * uniform(key, i + 1));
    const double v = std::pow(1 + c * normal, 3);
    if (v <= 0) continue;
    if (std::log(uniform(key, i + 2)) < normal * normal / 2 + d - d * v + d * std::log(v))
      return std::log(d * v) + std::log(uniform(key, 0)) / shape;
  }
}

// Shares of the workers, which add up to 1.
std::vector<double> dirichlet(double concentration, std::size_t workers, const Key& key) {
  std::vector<double> shares(workers);
  for (std::size_t worker = 0; worker < workers; ++worker)
    shares[worker] = log_gamma_draw(concentration, key.fork(worker));
  const double most = *std::ranges::max_element(shares);
  double sum = 0;
  for (double& share : shares) sum += share = std::exp(share - most);
  for (double& share : shares) share /= sum;
  return shares;
}

}  // namespace

Split Split::parse(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view name = text.substr(0, colon),
                         rest = text.substr(std::min(colon + 1, text.size()));
  if (text == "reshuffled") return reshuffled;
  if (text == "sharded") return sharded;
  double number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  const bool read = error == std::errc() && end == rest.data() + rest.size();
  if (read && name == "classes" && number >= 1 && number <= 256 && number == std::floor(number))
    return {Kind::classes, number};
  if (read && name == "dirichlet" && number >= 0.001 && number <= 1000)
    return {Kind::dirichlet, number};
  throw UsageError("no split '" + std::string(text) +
                   "'; allowed: reshuffled, sharded, classes:K (K = 1 to 256, whole) and "
                   "dirichlet:A (A = 0.001 to 1000)");
}

std::string Split::text() const {
  static constexpr const char* kNames[] = {"reshuffled", "sharded", "classes", "dirichlet"};
  std::string text = kNames[static_cast<int>(kind)];
  if (!by_label()) return text;
  char digits[32];
  return text + ":" +
         std::string(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

Batches::Batches(std::size_t images, std::size_t workers, std::size_t batch, Split split,
                 std::uint64_t seed, std::span<const std::uint8_t> labels)
    : workers_(workers),
      batch_(batch),
      split_(split),
      key_(Key(seed).fork(0x64617461)),
      steps_(batch == 0 || workers == 0 ? 0 : images / batch / workers),
      dealt_(images) {
  if (batch == 0) throw UsageError("batches of 0 images; allowed: 1 and more");
  if (steps_ == 0)
    throw UsageError(std::to_string(workers) + " workers with batches of " + std::to_string(batch) +
                     " need more than the " + std::to_string(images) + " images there are");
  std::iota(dealt_.begin(), dealt_.end(), 0U);
  permute(dealt_, key_.fork(0));
  if (split.by_label() && labels.size() != images)
    throw UsageError("split '" + split.text() + "' needs the classes of all images");
  if (split.kind == Split::Kind::classes) deal_classes(labels);
  if (split.kind == Split::Kind::dirichlet) deal_dirichlet(labels);
}

// The images, one class after the other, in K parts for each worker, which are dealt at random.
void Batches::deal_classes(std::span<const std::uint8_t> labels) {
  std::vector<std::uint32_t> sorted;
  for (std::vector<std::uint32_t>& images : by_class(labels)) {
    permute(images, key_.fork(0).fork(images.empty() ? 0 : labels[images[0]] + 1ULL));
    sorted.insert(sorted.end(), images.begin(), images.end());
  }
  std::vector<std::uint32_t> parts(workers_ * static_cast<std::size_t>(split_.number));
  std::iota(parts.begin(), parts.end(), 0U);
  permute(parts, key_.fork(0).fork(~0ULL));
  pools_.resize(workers_);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t from = sorted.size() * parts[i] / parts.size(),
                      to = sorted.size() * (parts[i] + std::size_t{1}) / parts.size();
    auto& pool = pools_[i % workers_];
    pool.insert(pool.end(), sorted.begin() + static_cast<std::ptrdiff_t>(from),
                sorted.begin() + static_cast<std::ptrdiff_t>(to));
  }
  if (!all_have_a_batch())
    throw UsageError("split '" + split_.text() + "' leaves a worker without a batch of " +
                     std::to_string(batch_) + "; allowed: fewer workers, or smaller batches");
}

// Drawn again until nobody has too little.
void Batches::deal_dirichlet(std::span<const std::uint8_t> labels) {
  constexpr std::uint64_t kTries = 1000;
  for (std::uint64_t attempt = 0; attempt < kTries; ++attempt) {
    draw_pools(labels, key_.fork(0).fork(attempt));
    if (all_have_a_batch()) return;
  }
  throw UsageError("split '" + split_.text() + "' leaves a worker without a batch of " +
                   std::to_string(batch_) + " in each of " + std::to_string(kTries) +
                   " draws; allowed: a larger number, fewer workers, or smaller batches");
}

void Batches::draw_pools(std::span<const std::uint8_t> labels, const Key& key) {
  pools_.assign(workers_, {});
  auto classes = by_class(labels);
  for (std::size_t label = 0; label < classes.size(); ++label) {
    auto& images = classes[label];
    permute(images, key.fork(2 * label));
    double share = 0;
    std::size_t from = 0;
    const auto shares = dirichlet(split_.number, workers_, key.fork(2 * label + 1));
    for (std::size_t worker = 0; worker < workers_; ++worker) {
      share += shares[worker];
      const std::size_t to =
          worker + 1 == workers_
              ? images.size()
              : std::clamp(static_cast<std::size_t>(share * static_cast<double>(images.size())),
                           from, images.size());
      pools_[worker].insert(pools_[worker].end(),
                            images.begin() + static_cast<std::ptrdiff_t>(from),
                            images.begin() + static_cast<std::ptrdiff_t>(to));
      from = to;
    }
  }
}

bool Batches::all_have_a_batch() const {
  return std::ranges::all_of(pools_, [&](const auto& pool) { return pool.size() >= batch_; });
}

// A worker passes through its own images again and again, in another order each time; what is left
// of a pass after its last whole batch is left out.
std::span<const std::uint32_t> Batches::from_pool(std::uint64_t step, std::size_t worker) {
  const auto& pool = pools_[worker];
  const std::uint64_t batches = pool.size() / batch_, pass = step / batches;
  if (pass != epoch_ || worker != worker_ || order_.size() != pool.size()) {
    epoch_ = pass;
    worker_ = worker;
    order_ = pool;
    permute(order_, key_.fork(pass + 1).fork(worker));
  }
  return std::span(order_).subspan(static_cast<std::size_t>(step % batches) * batch_, batch_);
}

void Batches::shuffle(std::uint64_t epoch) {
  if (epoch == epoch_) return;
  epoch_ = epoch;
  order_ = dealt_;
  const Key key = key_.fork(epoch + 1);
  if (split_.kind == Split::Kind::reshuffled) return permute(order_, key);
  const std::size_t share = order_.size() / workers_;
  for (std::size_t worker = 0; worker < workers_; ++worker)
    permute(std::span(order_).subspan(worker * share, share), key.fork(worker));
}

std::span<const std::uint32_t> Batches::at(std::uint64_t step, std::size_t worker) {
  if (split_.by_label()) return from_pool(step, worker);
  shuffle(step / steps_);
  const auto in_epoch = static_cast<std::size_t>(step % steps_);
  const std::size_t from = split_.kind == Split::Kind::reshuffled
                               ? (in_epoch * workers_ + worker) * batch_
                               : worker * (order_.size() / workers_) + in_epoch * batch_;
  return std::span(order_).subspan(from, batch_);
}

}  // namespace laconic::trainer
