// Golden frames: the bytes of every operator, pinned. Both this library and reference/ must agree
// with them. A wanted change of the wire: run this test with LACONIC_UPDATE_GOLDEN=1, and change
// docs/frame.md and the data version.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support.h"

namespace laconic::testing {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(LACONIC_TEST_DIR) / "golden";

// Made of integers alone, so that no libm or library has a say in it: 2^-60 to 2^4, and a few
// zeros.
std::vector<float> exact_values(std::size_t count) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = Key(42).bits(i);
    const std::uint64_t field = bits % 11 == 0 ? 0 : 127 - 60 + (bits >> 40) % 64;
    const std::uint64_t mantissa = field == 0 ? 0 : bits & 0x7fffff;
    x[i] = std::bit_cast<float>(
        static_cast<std::uint32_t>((bits >> 63) << 31 | field << 23 | mantissa));
  }
  return x;
}

Buffer one_array(const std::string& spec) {
  return compress(parse_operator(spec), exact_values(4100), 0xfeedfacecafebeefULL);
}

// Everything a head and a table can say.
Buffer everything() {
  Buffer out;
  Scratch scratch;
  FrameHeader header;
  header.seed = 77;
  header.step = 1000000;
  header.rank = 300;
  header.ranks = 512;
  header.dtype = Dtype::float64;
  header.shape = {3, 5, 20};
  const std::vector<Operator> operators = {parse_operator("natural:8+entropy"),
                                           parse_operator("identity")};
  auto x = exact_values(300);
  x[222] = std::bit_cast<float>(0x7fc00000U);
  x[223] = std::numeric_limits<float>::infinity();
  FrameWriter frame(out, header, operators);
  frame.add(0, std::span(x).first(100), 0, header.keys(), scratch, "conv1.weight");
  frame.add(100, std::span(x).subspan(100, 0), 1, header.keys(), scratch, "empty");
  frame.add(100, std::span(x).subspan(100, 100), 1, header.keys(), scratch);
  frame.add(200, std::span(x).subspan(200, 50), 0, header.keys(), scratch, "not finite");
  frame.rest(250, 50, 1, "rests");
  frame.finish();
  return out;
}

// Sections with entries between them, with draws shared by all ranks, and levels of many bits.
Buffer sparse() {
  Buffer out;
  Scratch scratch;
  FrameHeader header;
  header.seed = 5;
  header.step = 300;
  header.rank = 2;
  header.dtype = Dtype::bfloat16;
  header.shape = {1150};
  const std::vector<Operator> operators = {
      parse_operator("randomk:0.1+qsgd:4"), parse_operator("grid:0.001+levels:fixed"),
      parse_operator("grid:0.001+entropy"), parse_operator("threshold:1000000,rice")};
  auto x = exact_values(1150);
  for (std::size_t i = 100; i < 500; i += 2) x[i] *= 0x1p30F;
  FrameWriter frame(out, header, operators);
  frame.add(0, std::span(x).first(100), 0, header.keys(), scratch, "drawn");
  frame.add(100, std::span(x).subspan(100, 200), 1, header.keys(), scratch, "wide");
  frame.add(300, std::span(x).subspan(300, 200), 2, header.keys(), scratch, "wide, coded");
  frame.add(600, std::span(x).subspan(600, 300), 0, header.keys(), scratch, "drawn again");
  frame.add(901, std::span(x).subspan(901, 240), 3, header.keys(), scratch, "nothing kept");
  frame.finish();
  return out;
}

// Matrices, whose rows and columns count: some are zeros, and some entries far beyond a byte. One
// is nearly a sum of two outer products.
Buffer matrices() {
  Buffer out;
  Scratch scratch;
  FrameHeader header;
  header.seed = 9;
  header.step = 12;
  header.rank = 1;
  header.ranks = 4;
  header.shape = {5500 + 9600};
  const std::vector<Operator> operators = {parse_operator("dither"),
                                           parse_operator("dither:0.001")};
  auto x = exact_values(5500);
  for (std::size_t i = 0; i < 100; ++i) x[i] = x[1000 + i] = x[50 * i + 7] = 0;
  FrameWriter frame(out, header, operators);
  frame.add(0, std::span(x).first(4000), 0, header.keys(), scratch, "loud and quiet rows", 50);
  frame.add(4000, std::span(x).subspan(4000, 700), 1, header.keys(), scratch, "fine", 35);
  frame.add(4700, std::span(x).subspan(4700, 800), 0, header.keys(), scratch, "too narrow", 4);
  std::vector<float> y(9600);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto row = static_cast<int>(i / 80), col = static_cast<int>(i % 80);
    const int first = (row * 7 % 31 - 15) * (col * 5 % 23 - 11), noise = Key(42).bits(i) % 64;
    const int second = (row * 3 % 17 - 8) * (col * 9 % 29 - 14);
    if (row % 10 != 3 && col != 40) y[i] = static_cast<float>(64 * (first + second) + noise - 31);
  }
  frame.add(5500, y, 0, header.keys(), scratch, "nearly of rank 2", 80);
  frame.finish();
  return out;
}

std::string file_name(std::string spec) {
  for (char& c : spec)
    if (c == ':' || c == ',' || c == '+' || c == '=') c = '-';
  return spec;
}

std::vector<std::uint8_t> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path << " is missing: run this test with LACONIC_UPDATE_GOLDEN=1";
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::filesystem::path& path, ByteView bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

std::vector<float> decoded_values(ByteView bytes) {
  const Frame frame = read_frame(bytes);
  Scratch scratch;
  std::vector<float> values(frame.header.count());
  for (const Section& section : frame.sections)
    add_section(frame, section, 1, std::span(values).subspan(section.first, section.count),
                scratch);
  return values;
}

ByteView bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(float)};
}

void update(const std::string& path, const Buffer& frame) {
  write_file(path + ".lac", frame.view());
  write_file(path + ".expected", bytes_of(decoded_values(frame.view())));
}

// What is written is the file, and both decode to the values beside it.
void expect_golden(const std::string& name, const Buffer& frame) {
  const std::string path = (kFolder / name).string();
  if (std::getenv("LACONIC_UPDATE_GOLDEN")) update(path, frame);
  const auto file = read_file(path + ".lac"), values = read_file(path + ".expected");
  EXPECT_TRUE(std::ranges::equal(file, frame.view())) << name << ": other bytes";
  EXPECT_TRUE(std::ranges::equal(values, bytes_of(decoded_values(frame.view())))) << name;
  EXPECT_TRUE(std::ranges::equal(values, bytes_of(decoded_values(file)))) << name;
}

class Golden : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Registry, Golden, ::testing::ValuesIn(example_specs()));

TEST_P(Golden, BytesAndValues) {
  on_every_cpu(
      [&](const std::string&) { expect_golden(file_name(GetParam()), one_array(GetParam())); });
}

TEST(GoldenFrame, Everything) { expect_golden("everything", everything()); }
TEST(GoldenFrame, Sparse) { expect_golden("sparse", sparse()); }
TEST(GoldenFrame, Matrices) {
  on_every_cpu([](const std::string&) { expect_golden("matrices", matrices()); });
}

TEST(GoldenFrame, NoFileIsLeftOver) {
  std::size_t frames = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    frames += entry.path().extension() == ".lac";
  EXPECT_EQ(frames, example_specs().size() + 3);
}

}  // namespace
}  // namespace laconic::testing
