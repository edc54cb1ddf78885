// What a peer sends in a step, heads of messages and its vote included, through every exchange: the
// step happens, or it is refused with nothing changed.
// Input: u8 selects the exchange; u8, if odd, puts heads and checksums right; then messages, each
// after a u16 of its length. Without that a message is its head and its bytes.
#include "fuzz/step.h"
#include "laconic/exchange/vote.h"
#include "laconic/transports/callbacks.h"
#include "laconic/transports/head.h"

namespace laconic::fuzz {
namespace {

// The messaging layer of rank 0 of two: rank 1 is the input, and zeros after it.
class Peer {
 public:
  Peer(Input in, bool mends) : in_(in), mends_(mends) {}

  void exchange(std::span<const Send> sends, std::span<const Receive> receives) {
    for (const Receive& receive : receives) {
      std::ranges::fill(receive.bytes, std::uint8_t{0});
      if (std::exchange(bytes_follow_, false))
        give(message_, receive.bytes);
      else if (receive.bytes.size() == kMessageHead)
        give_head(sends, receive.bytes);
    }
  }

 private:
  static void give(ByteView from, std::span<std::uint8_t> to) {
    std::ranges::copy(from.first(std::min(from.size(), to.size())), to.begin());
  }

  // A rank sends under the same tag as it receives.
  void give_head(std::span<const Send> sends, std::span<std::uint8_t> out) {
    if (!mends_) {
      give(in_.take(kMessageHead), out);
      std::uint64_t length = 0;
      accepts([&] { length = read_head(out, 1).length; });
      const ByteView bytes =
          in_.take(static_cast<std::size_t>(std::min<std::uint64_t>(length, 8192)));
      message_.assign(bytes.begin(), bytes.end());
      bytes_follow_ = length > 0;
      return;
    }
    const ByteView bytes = in_.take(in_.take<std::uint16_t>());
    Head head;
    if (!sends.empty()) head = read_head(sends[0].bytes, 0);
    message_.assign(bytes.begin(), bytes.end());
    if (bytes.size() == kBallotBytes) mend_ballot(head.tag.attempt);
    if (as_text(bytes).starts_with("LAC")) message_ = mended(bytes);
    head.length = message_.size();
    give(write_head(head), out);
    bytes_follow_ = !message_.empty();
  }

  void mend_ballot(std::uint64_t attempt) {
    store(message_.data() + 8, attempt);
    constexpr std::size_t kCheck = kBallotBytes - 4;
    store(message_.data() + kCheck, crc32c(ByteView(message_).first(kCheck)));
  }

  Input in_;
  bool mends_, bytes_follow_ = false;
  std::vector<std::uint8_t> message_;
};

struct Run {
  bool happened = false;
  std::string why;
  std::vector<float> mean;
  State state;
};

Run run(const StepJob& job, Input in, bool mends) {
  Peer peer(in, mends);
  const auto transport = make_callback_transport(
      {.rank = 0, .size = 2, .exchange = [&](auto sends, auto receives, const Deadline&) {
         peer.exchange(sends, receives);
       }});
  const auto aggregator = step_aggregator(job, *transport);
  const State before = aggregator->save();
  Run run{.mean = step_gradient(0)};
  try {
    run.happened = aggregator->average(run.mean, {.step = 1, .lr = 0.1F}).finite;
  } catch (const Error& error) {
    run.why = error.what();
    require(!run.why.empty(), "a refusal says why");
    run.mean.clear();
  }
  run.state = aggregator->save();
  if (!run.happened) require(run.state == before, "a step that did not happen leaves the memory");
  if (run.happened)
    require(std::ranges::all_of(run.mean, [](float x) { return x - x == 0; }),
            "a step that happened has finite means");
  return run;
}

bool same(const Run& a, const Run& b) {
  return a.happened == b.happened && a.why == b.why && a.state == b.state &&
         std::ranges::equal(std::as_bytes(std::span(a.mean)), std::as_bytes(std::span(b.mean)));
}

// Ballots as all ranks have them: whoever counts says the same.
void votes(ByteView bytes) {
  std::vector<Ballot> ballots(1);
  for (; bytes.size() >= kBallotBytes; bytes = bytes.subspan(kBallotBytes))
    accepts([&] {
      ballots.push_back(read_ballot(bytes.first(kBallotBytes)));
      require(std::ranges::equal(write_ballot(ballots.back()), bytes.first(kBallotBytes)),
              "a ballot has one spelling");
    });
  accepts([&] { require_same(ballots); });
}

// Why somebody aborts.
void reason(ByteView bytes) {
  accepts([&] {
    const Reason read = read_reason(bytes, 1);
    require(std::ranges::equal(write_reason(read.culprit, read.text).view(), bytes),
            "a reason comes back");
  });
}

}  // namespace
}  // namespace laconic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace laconic::fuzz;
  Input in(data, size);
  const StepJob& job = kStepJobs[in.take<std::uint8_t>() % std::size(kStepJobs)];
  const bool mends = in.take<std::uint8_t>() % 2 == 1;
  votes(in.rest());
  reason(in.rest());
  require(same(run(job, in, mends), run(job, in, mends)), "the same messages do the same");
  return 0;
}
