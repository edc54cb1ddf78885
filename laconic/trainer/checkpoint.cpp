// Layout of the file: "LACC", u8 version, u32 length of the JSON, the JSON, the state as a frame,
// CRC-32C of all before.
#include "laconic/trainer/checkpoint.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "laconic/base/errors.h"
#include "laconic/base/file.h"
#include "laconic/codecs/crc32c.h"
#include "laconic/codecs/varint.h"

namespace laconic::trainer {
namespace {

using nlohmann::json;

constexpr std::uint8_t kVersion = 3;
constexpr const char* kCommon = "common/";

std::string rank_prefix(std::size_t rank) { return "rank" + std::to_string(rank) + "/"; }

json facts_of(const Checkpoint& c) {
  json evaluations = json::array();
  for (const Evaluation& evaluation : c.course.evaluations)
    evaluations.push_back(write_evaluation(evaluation));
  // JSON's shortest decimal form of a double keeps it to its last bit.
  return {{"settings", c.settings},
          {"step", c.course.step},
          {"totals", write_totals(c.course.totals)},
          {"loss_sums", c.loss_sums},
          {"loss_count", c.course.loss_count},
          {"images", c.course.images},
          {"skipped", c.course.skipped},
          {"ranks", c.own.size()},
          {"evaluations", evaluations}};
}

Checkpoint parse(ByteView bytes) {
  if (bytes.size() < 13 || as_text(bytes.first(4)) != "LACC") throw DataError("not a checkpoint");
  if (crc32c(bytes.first(bytes.size() - 4)) != load<std::uint32_t>(bytes.data() + bytes.size() - 4))
    throw DataError("the checkpoint is damaged or cut short: its checksum does not match");
  if (bytes[4] != kVersion)
    throw DataError("the checkpoint has version " + std::to_string(bytes[4]) +
                    "; this build reads " + std::to_string(kVersion));
  ByteReader in(bytes.subspan(5, bytes.size() - 9));
  const json facts =
      json::parse(as_text(in.take(in.number<std::uint32_t>("the length"), "the facts")));
  const State all = read_state(in.rest());
  Checkpoint c;
  c.settings = facts.at("settings");
  c.course.step = facts.at("step");
  c.course.totals = read_totals(facts.at("totals"));
  for (const auto& sum : facts.at("loss_sums"))
    c.loss_sums.push_back(sum.is_null() ? NAN : sum.get<double>());
  c.course.loss_count = facts.at("loss_count");
  c.course.images = facts.at("images");
  c.course.skipped = facts.at("skipped");
  for (const auto& line : facts.at("evaluations"))
    c.course.evaluations.push_back(read_evaluation(line));
  c.common = take_under(kCommon, all);
  for (std::size_t rank = 0; rank < facts.at("ranks").get<std::size_t>(); ++rank)
    c.own.push_back(take_under(rank_prefix(rank), all));
  return c;
}

}  // namespace

void write_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  State all;
  put_under(kCommon, checkpoint.common, all);
  for (std::size_t rank = 0; rank < checkpoint.own.size(); ++rank)
    put_under(rank_prefix(rank), checkpoint.own[rank], all);
  const std::string facts = facts_of(checkpoint).dump();
  Buffer out;
  out.append(as_bytes("LACC"));
  out.append_number(kVersion);
  out.append_number(static_cast<std::uint32_t>(facts.size()));
  out.append(as_bytes(facts));
  out.append(write_state(all).view());
  out.append_number(crc32c(out.view()));
  write_file(path, out.view());
}

std::optional<Checkpoint> read_checkpoint(const std::string& path) {
  if (!std::filesystem::exists(path)) return {};
  const Buffer file = read_file(path);
  try {
    return parse(file.view());
  } catch (const DataError& error) {
    throw DataError(path + ": " + error.what());
  } catch (const json::exception& error) {
    throw DataError(path + ": the checkpoint's facts cannot be read: " + error.what());
  }
}

}  // namespace laconic::trainer
