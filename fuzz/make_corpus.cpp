// Writes the seeds of all fuzz targets: make_corpus FOLDER. Each operator of example_specs() gives
// one small section and one small frame, each mixer a round's messages, each codec and each reader
// of text or files a few inputs.
// The same build writes the same files.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "fuzz/fuzz.h"
#include "fuzz/gossip.h"
#include "fuzz/step.h"
#include "laconic/base/npy.h"
#include "laconic/codecs/elias.h"
#include "laconic/codecs/entropy.h"
#include "laconic/codecs/index.h"
#include "laconic/codecs/rice.h"
#include "laconic/codecs/varint.h"
#include "laconic/frame/frame.h"
#include "laconic/memory/memory.h"
#include "laconic/recipes/recipe.h"
#include "laconic/transports/head.h"
#include "laconic/transports/threads.h"
#include "laconic/transports/wrapped.h"

namespace laconic::fuzz {
namespace {

const Keys kKeys = make_keys(1, 2, 3);

// Bell-shaped entries of many sizes, with zeros, both signs, and the edges of the float range.
std::vector<float> entries(std::size_t count) {
  std::vector<float> x(count);
  const Key key(7);
  for (std::size_t i = 0; i < count; ++i) {
    const auto draw = key.bits(i);
    const float size = std::ldexp(1.0F, -static_cast<int>(draw % 13));
    x[i] = draw % 5 == 0 ? 0.0F : (draw >> 32 & 1 ? -size : size) * static_cast<float>(i % 7 + 1);
  }
  constexpr float kEdges[] = {-0.0F, 1e-45F, 0x1p-126F, 0x1.fffffep127F};
  for (std::size_t i = 0; i < std::size(kEdges) && 4 * i + 3 < count; ++i) x[4 * i + 3] = kEdges[i];
  return x;
}

class Folder {
 public:
  explicit Folder(std::filesystem::path path) : path_(std::move(path)) {
    std::filesystem::create_directories(path_);
  }

  // Characters of a spec that file systems or build tools take amiss become '-'.
  void write(std::string name, ByteView bytes) const {
    for (char& c : name)
      if (c == ':' || c == ',' || c == '=') c = '-';
    std::ofstream file(path_ / name, std::ios::binary);
    file.write(as_text(bytes).data(), std::ssize(bytes));
    if (!file.flush()) throw SystemError("cannot write " + (path_ / name).string());
  }

 private:
  std::filesystem::path path_;
};

void operator_seeds(const Folder& folder) {
  for (const auto& spec : example_specs())
    for (const std::size_t count : {0, 21, 4099}) {                     // the last: two blocks
      if (count > 21 && spec.find('+') == std::string::npos) continue;  // too large without a coder
      const Operator op = parse_operator(spec);
      Scratch scratch;
      Buffer out;
      out.append_number(place_of(op.spec()));
      out.append_number(static_cast<std::uint16_t>(count));
      if (!op.encode(entries(count), out, kKeys, scratch)) throw DataError(spec + ": not finite");
      folder.write(spec + "-" + std::to_string(count), out.view());
    }
}

// Matrices that are nearly a sum of two outer products, for operators to which rows and columns
// count.
void matrix_seeds(const Folder& folder) {
  constexpr std::size_t kRows = 128, kCols = 64;
  std::vector<float> x(kRows * kCols);
  const Key key(8);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto row = static_cast<int>(i / kCols), col = static_cast<int>(i % kCols);
    const int first = (row * 7 % 31 - 15) * (col * 5 % 23 - 11);
    const int second = (row * 3 % 17 - 8) * (col * 9 % 29 - 14);
    if (row % 10 == 3 || col == 40) continue;
    x[i] = static_cast<float>(64 * (first + second) + static_cast<int>(key.bits(i) % 64));
  }
  for (const char* spec : {"dither", "dither:1", "grid:contexts"}) {
    Scratch scratch;
    Buffer out;
    out.append_number(place_of(parse_operator(spec).spec()));
    out.append_number(static_cast<std::uint16_t>(x.size()));
    if (!parse_operator(spec)
             .encode(Source{.fresh = std::span<const float>(x), .cols = kCols}, out, kKeys, scratch)
             .finite)
      throw DataError(std::string(spec) + ": not finite");
    folder.write(std::string(spec) + "-matrix", out.view());
  }
}

void write_frame(const Folder& folder, const std::string& name, FrameHeader header,
                 const std::vector<std::string>& specs, std::vector<std::vector<float>> slices,
                 std::uint64_t gap = 0) {
  std::vector<Operator> operators;
  for (const auto& spec : specs) operators.push_back(parse_operator(spec));
  Scratch scratch;
  Buffer out;
  FrameWriter writer(out, header, operators);
  std::uint64_t position = gap;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    writer.add(position, slices[i], i % operators.size(), header.keys(), scratch,
               i == 0 ? "" : "layer" + std::to_string(i));
    position += slices[i].size() + gap;
  }
  if (gap > 0) writer.rest(position, 3, 0, "rests");
  writer.finish();
  Buffer seed;
  seed.append_number(std::uint8_t{1});  // mends the checksum, so that mutations get past it
  seed.append(out.view());
  folder.write(name, seed.view());
}

void frame_seeds(const Folder& folder) {
  for (const auto& spec : example_specs())
    write_frame(folder, spec, {.seed = 1, .shape = {3, 7}}, {spec}, {entries(21)});
  write_frame(folder, "empty", {.shape = {0}}, {"natural"}, {});
  write_frame(folder, "scalar", {.shape = {}}, {"identity"}, {entries(1)});
  write_frame(folder, "not-finite", {.rank = 300, .dtype = Dtype::bfloat16, .shape = {2}},
              {"natural"}, {{NAN, INFINITY}});
  write_frame(folder, "several", {.step = 1000, .ranks = 4, .dtype = Dtype::float64, .shape = {80}},
              {"natural+entropy", "half", "identity"},
              {entries(21), entries(0), entries(9), {NAN, 1}, entries(7)}, 5);
}

// Positions by every codec: a few of many, with one long gap; and one of each 8.
void index_seeds(const Folder& folder) {
  struct Seed {
    std::string name;
    IndexSpace space;
    std::vector<std::uint32_t> positions;
  };
  const std::vector<Seed> seeds = {
      {"sparse", {.count = 3000}, {0, 1, 9, 40, 41, 500, 2040, 2999}},
      {"dense", {.count = 90}, {0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 70, 71, 72, 73, 74, 75, 76, 89}},
      {"even", {.count = 20, .chunk = 8, .per_chunk = 1}, {7, 9, 18}}};
  for (std::size_t i = 0; i < index_codecs().size(); ++i)
    for (const auto& [name, space, positions] : seeds) {
      const IndexCodec& codec = index_codecs()[i];
      Buffer out;
      out.append_number(std::uint8_t{6});
      out.append_number(static_cast<std::uint8_t>(i));
      out.append_number(static_cast<std::uint16_t>(space.count));
      out.append_number(static_cast<std::uint16_t>(positions.size()));
      out.append_number(static_cast<std::uint8_t>(space.chunk));
      out.append_number(static_cast<std::uint8_t>(space.per_chunk));
      codec.write(positions, space, out);
      folder.write("index-" + codec.name + "-" + name, out.view());
    }
}

// One stream per code of numbers of every width.
void code_seeds(const Folder& folder) {
  for (const bool is_rice : {true, false}) {
    constexpr unsigned kLow = 3;
    constexpr std::uint32_t kLargest = 0x7fffffff;
    Buffer out;
    out.append_number(std::uint8_t{7});
    out.append_number(static_cast<std::uint8_t>(kLow));
    out.append_number(kLargest);
    BitWriter writer(out);
    for (std::uint32_t number = 1;; number *= 5) {
      if (is_rice) Rice(kLow, kLargest).put(number, writer);
      if (!is_rice) put_omega(number, writer);
      if (number > kLargest / 5) break;
    }
    writer.finish();
    folder.write(is_rice ? "codes-rice" : "codes-omega", out.view());
  }
}

void codec_seeds(const Folder& folder) {
  const auto write = [&](std::uint8_t codec, const std::string& name, auto fill) {
    Buffer out;
    out.append_number(codec);
    fill(out);
    folder.write(name, out.view());
  };
  write(0, "varints", [](Buffer& out) {
    for (unsigned bit = 0; bit < 64; bit += 9) put_varint(1ULL << bit, out);
    put_varint(0, out);
    put_varint(~0ULL, out);
  });
  write(1, "bits", [](Buffer& out) {
    out.append_number(std::uint8_t{7});
    for (const int width : {31, 57, 0, 1, 32, 8, 5})
      out.append_number(static_cast<std::uint8_t>(width));
    for (std::uint64_t i = 0; i < 3; ++i) out.append_number(Key(5).bits(i));
  });
  for (const unsigned width : {1U, 8U, 13U, 32U})
    write(2, "fixed-" + std::to_string(width), [&](Buffer& out) {
      const std::vector<std::uint32_t> symbols(11, width == 32 ? ~0U : (1U << width) - 1);
      out.append_number(static_cast<std::uint8_t>(width));
      out.append_number(static_cast<std::uint16_t>(symbols.size()));
      pack(symbols, width, out);
    });
  for (const std::size_t count : {9, 360, 262152})  // the last: just above one chunk
    write(3, "entropy-" + std::to_string(count), [&](Buffer& out) {
      const bool is_long = count > 65535;
      std::vector<std::uint8_t> bytes(count);
      for (std::size_t i = 0; i < count; ++i)
        bytes[i] = is_long ? 3 : static_cast<std::uint8_t>(std::countr_zero(Key(2).bits(i)));
      out.append_number(static_cast<std::uint8_t>(is_long ? 255 : 0));
      out.append_number(static_cast<std::uint16_t>(is_long ? count / 9 : count));
      Pool pool(1);
      Entropy().encode(bytes, out, pool);
    });
  write(4, "masked", [](Buffer& out) {
    out.append_number(std::uint16_t{75});
    for (int i = 0; i < 75; ++i) out.append_number(static_cast<std::uint8_t>(i < 40 ? 1 : i % 3));
    for (int i = 0; i < 8; ++i) out.append_number(static_cast<std::uint8_t>(i < 7 ? 0x5a : 0));
  });
  write(5, "checksum", [](Buffer& out) {
    out.append_number(std::uint16_t{3});
    out.append(as_bytes("123456789"));
  });
  index_seeds(folder);
  code_seeds(folder);
}

// Keeps what a rank sends.
class Recorder : public WrappedTransport {
 public:
  using WrappedTransport::WrappedTransport;
  ~Recorder() override { cancel_all(); }

  const std::vector<Buffer>& sent() const { return sent_; }

 protected:
  void do_start(Transfer& transfer) override {
    for (const Send& send : transfer.sends) sent_.emplace_back().append(send.bytes);
    WrappedTransport::do_start(transfer);
  }

 private:
  std::vector<Buffer> sent_;
};

// Makes both ranks run, and returns what rank 1 sends: each message after its length.
template <class Run>
Buffer sent_by_the_other(Run run) {
  auto ends = make_thread_transports(2);
  Recorder recorder(std::move(ends[1]));
  {
    const std::jthread other([&] { run(*ends[0]); });
    run(recorder);
  }
  Buffer out;
  for (const Buffer& message : recorder.sent()) {
    out.append_number(static_cast<std::uint16_t>(message.size()));
    out.append(message.view());
  }
  return out;
}

// What rank 1 really sends to rank 0 in a round, by every mixer.
void gossip_seeds(const Folder& folder) {
  for (const auto& spec : gossip_specs()) {
    Buffer out;
    out.append_number(place_of(spec));
    out.append_number(std::uint8_t{1});
    out.append(sent_by_the_other([&](Transport& end) {
                 auto model = gossip_start(end.rank());
                 gossip_mixer(spec, end)->mix(model, {.step = 1});
               }).view());
    folder.write(spec, out.view());
  }
}

// The same of a step, by every exchange.
void step_seeds(const Folder& folder) {
  for (std::size_t i = 0; i < std::size(kStepJobs); ++i) {
    const StepJob& job = kStepJobs[i];
    Buffer out;
    out.append_number(static_cast<std::uint8_t>(i));
    out.append_number(std::uint8_t{1});
    out.append(sent_by_the_other([&](Transport& end) {
                 auto gradient = step_gradient(end.rank());
                 step_aggregator(job, end)->average(gradient, {.step = 1, .lr = 0.1F});
               }).view());
    folder.write(std::string(job.exchange) + "-" + job.op + "-" + job.memory, out.view());
  }
  Buffer heads;
  heads.append_number(std::uint8_t{0});
  heads.append_number(std::uint8_t{0});
  heads.append(write_head({.tag = {.attempt = 1}, .length = 5}));
  heads.append(as_bytes("hello"));
  folder.write("head", heads.view());
}

void text_seeds(const Folder& folder) {
  const auto write = [&](std::uint8_t reader, const std::string& name, ByteView bytes) {
    Buffer out;
    out.append_number(reader);
    out.append(bytes);
    folder.write(name, out.view());
  };
  for (const auto& spec : example_specs()) write(0, "spec-" + spec, as_bytes(spec));
  write(0, "spec-keys", as_bytes("natural:bits=8,rounding=nearest+entropy"));
  for (const Recipe& recipe : recipes())
    write(1, "recipe-" + recipe.name, as_bytes(write_recipe(recipe)));
  write(1, "recipe-of-all-keys",
        as_bytes(write_recipe({.name = "mine",
                               .op = "topk:0.01+natural",
                               .memory = "dgc:0.5,clip=2",
                               .layout = "fused:4M",
                               .exchange = "server",
                               .down = "stc:0.01",
                               .down_memory = "feedback:0.5",
                               .rules = {"name=*.bias,max=1024,op=identity", "max_rank=1,op=half"},
                               .warmup = {"100 natural", "200 topk:0.1"},
                               .summary = "\"\\ \u00e9\n"})));
  write(1, "recipe-of-ranks",
        as_bytes(write_recipe(
            {.name = "mine", .exchange = "powersgd:2", .rules = {"name=fc*,max_rank=2,rank=4"}})));
  write(1, "recipe-of-a-name", as_bytes(R"({"name": "mine"})"));
  for (const auto dtype : {NpyDtype::float16, NpyDtype::float32, NpyDtype::float64}) {
    const std::vector<std::uint64_t> shape = {2, 3};
    Buffer out;
    append_npy(dtype, shape, entries(6), out);
    write(2, "npy-" + std::to_string(static_cast<int>(dtype)), out.view());
  }
  write(3, "state", write_state({{"feedback/a", entries(5)}, {"feedback/b", {}}}).view());
  write(3, "state-of-an-owner",
        write_state({{"dgc/a", entries(5)},
                     {"dgc.momentum/a", entries(5)},
                     {"down.feedback/a", entries(5)},
                     {"gmc.parameters/b", {}}})
            .view());
  write(4, "notes",
        as_bytes(write_notes(
            {.model = {{"w", {3, 5}}, {"b", {5}}}, .recipe = recipes().front(), .seed = 8})));
  write(4, "notes-nested", as_bytes(R"({"recipe": {"training": [[[[{"a": {}}]]]]}})"));
}

}  // namespace
}  // namespace laconic::fuzz

int main(int argc, char** argv) {
  using namespace laconic::fuzz;
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus FOLDER\n");
    return 2;
  }
  const std::filesystem::path to = argv[1];
  operator_seeds(Folder(to / "operator_fuzzer"));
  matrix_seeds(Folder(to / "operator_fuzzer"));
  frame_seeds(Folder(to / "frame_fuzzer"));
  codec_seeds(Folder(to / "codec_fuzzer"));
  gossip_seeds(Folder(to / "gossip_fuzzer"));
  step_seeds(Folder(to / "step_fuzzer"));
  text_seeds(Folder(to / "text_fuzzer"));
}
