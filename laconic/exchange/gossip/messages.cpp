// Frames between neighbours.
#include "laconic/exchange/gossip/messages.h"

#include "laconic/base/errors.h"

namespace laconic {
namespace {

void expect(const Frame& frame, const FrameHeader& expected, const Plan& plan) {
  const FrameHeader& header = frame.header;
  if (header.rank != expected.rank || header.step != expected.step ||
      header.seed != expected.seed || header.shape != expected.shape)
    throw DataError("the frame is of rank " + std::to_string(header.rank) + ", step " +
                    std::to_string(header.step) + ", seed " + std::to_string(header.seed) +
                    " and " + std::to_string(header.count()) + " entries");
  if (frame.operators != plan.operators || !frame.covers_all() ||
      frame.sections.size() != plan.layout.size())
    throw DataError("the frame has another operator or layout than this rank");
  for (std::size_t i = 0; i < plan.layout.size(); ++i)
    if (frame.sections[i].count != plan.layout[i].count ||
        frame.sections[i].operator_index != plan.operator_of[i])
      throw DataError("the frame cuts the model otherwise at slice '" + plan.layout[i].name + "'");
}

std::string number(std::uint64_t value) { return std::to_string(value); }

}  // namespace

// Head and table take less than what is added for them.
std::uint64_t largest_frame(const Plan& plan) {
  std::uint64_t bytes = 1024;
  for (const Operator& op : plan.operators) bytes += op.spec().size() + 16;
  for (std::size_t i = 0; i < plan.layout.size(); ++i) {
    const std::size_t count = plan.layout[i].count;
    bytes += std::max(plan.op(i).max_size(count), count * sizeof(float)) + 32;
  }
  return bytes;
}

std::size_t write_message(std::span<const float> x, const FrameHeader& header, const Plan& plan,
                          Buffer& out, Scratch& scratch) {
  out.clear();
  FrameWriter frame(out, header, plan.operators);
  for (std::size_t i = 0; i < plan.layout.size(); ++i)
    frame.add(x.subspan(plan.layout[i].offset, plan.layout[i].count), plan.operator_of[i],
              header.keys(), scratch);
  return frame.finish();
}

Frame read_message(ByteView bytes, const FrameHeader& expected, const Plan& plan,
                   Scratch& scratch) {
  try {
    Frame frame = read_frame(bytes, {.max_count = expected.count()});
    expect(frame, expected, plan);
    check_sections(frame, scratch);
    return frame;
  } catch (const DataError& error) {
    throw DataError("from rank " + number(expected.rank) + " in step " + number(expected.step) +
                    ": " + error.what());
  }
}

void swap_messages(Transport& transport, std::span<const Neighbour> peers,
                   std::span<const ByteView> out, std::vector<Buffer>& in, std::uint64_t most,
                   const Deadline& deadline) {
  std::vector<std::uint64_t> lengths(peers.size()), claimed(peers.size());
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    lengths[i] = out[i].size();
    sends.push_back({peers[i].rank, {reinterpret_cast<const std::uint8_t*>(&lengths[i]), 8}});
    receives.push_back({peers[i].rank, {reinterpret_cast<std::uint8_t*>(&claimed[i]), 8}});
  }
  transport.exchange(sends, receives, deadline);
  if (in.size() < peers.size()) in.resize(peers.size());
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (claimed[i] > most)
      throw DataError("rank " + std::to_string(peers[i].rank) + " claims " + number(claimed[i]) +
                      " bytes where at most " + number(most) + " can be (" +
                      std::string(deadline.operation) + ")");
    sends[i].bytes = out[i];
    receives[i].bytes = in[i].reset(static_cast<std::size_t>(claimed[i]));
  }
  transport.exchange(sends, receives, deadline);
}

void add_message(const Frame& frame, float weight, std::span<float> y, Scratch& scratch) {
  for (const Section& section : frame.sections)
    add_section(frame, section, weight, y.subspan(section.first, section.count), scratch);
}

Broadcast::Broadcast(const MixerSetup& setup)
    : transport_(setup.transport),
      plan_(setup.plan),
      timeout_seconds_(setup.timeout_seconds),
      largest_(largest_frame(setup.plan)),
      neighbours_(neighbours_by_round(setup.graph, setup.transport.rank())),
      scratch_(setup.threads) {
  header_.seed = setup.seed;
  header_.shape = {count_of(setup.model)};
}

void Broadcast::swap(std::span<const float> x, std::uint64_t step, StepStats& stats) {
  const auto& peers = neighbours(step);
  header_.step = step;
  header_.rank = static_cast<std::uint64_t>(rank());
  Stopwatch watch;
  const std::size_t payload = write_message(x, header_, plan_, out_, scratch_);
  mine_ = read_frame(out_.view(), {.max_count = header_.count()});
  stats.compress_seconds = watch.lap();

  const TrafficMeter meter(transport_);
  const std::vector<ByteView> out(peers.size(), out_.view());
  swap_messages(transport_, peers, out, in_, largest_,
                Deadline::in(timeout_seconds_, "exchange of frames with neighbours"));
  meter.into(stats);
  stats.exchange_seconds = watch.lap();

  theirs_.clear();
  stats.finite = mine_.finite();
  for (std::size_t i = 0; i < peers.size(); ++i) {
    header_.rank = static_cast<std::uint64_t>(peers[i].rank);
    theirs_.push_back(read_message(in_[i].view(), header_, plan_, scratch_));
    stats.finite = stats.finite && theirs_.back().finite();
    stats.dense_bytes += x.size_bytes();
    count_message(payload, out_.size(), stats);
  }
  stats.decompress_seconds = watch.lap();
}

}  // namespace laconic
