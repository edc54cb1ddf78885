// Messages that wait to be taken, by sender and tag: a table that allocates only when it grows.
#pragma once

#include <algorithm>

#include "laconic/exchange/transport.h"

namespace laconic {

// A sender's message, in its transfer's state.
struct Message {
  int from;
  Tag tag;
  ByteView bytes;
  Transfer::State* owner = nullptr;
  bool free = true;        // its bytes are nobody else's; guarded by the sender's place
  bool delivered = false;  // likewise
  Message* next = nullptr;
};

class Posted {
 public:
  void add(Message& message) {
    if (count_ >= chains_.size()) grow();
    Message** at = chain_of(message.from, message.tag);
    while (*at) at = &(*at)->next;  // those of one sender and tag stay in order
    message.next = nullptr;
    *at = &message;
    ++count_;
  }

  // The first of this sender and tag, no longer in the table; none: nullptr.
  Message* take(int from, const Tag& tag) {
    return unlink(from, tag, [](const Message&) { return true; });
  }

  bool has(int from, const Tag& tag) {
    if (count_ == 0) return false;
    for (Message* message = *chain_of(from, tag); message; message = message->next)
      if (message->from == from && message->tag == tag) return true;
    return false;
  }

  bool remove(const Message& message) {
    return unlink(message.from, message.tag, [&](const Message& m) { return &m == &message; });
  }

  // Takes out all messages that are wanted and gives them to `taken`.
  template <class Wanted, class Taken>
  void drain(Wanted wanted, Taken taken) {
    for (std::size_t i = 0; i < chains_.size() && count_ > 0; ++i)
      for (Message** at = &chains_[i]; *at;) {
        Message* message = *at;
        if (!wanted(*message)) {
          at = &message->next;
          continue;
        }
        *at = message->next;
        --count_;
        taken(*message);
      }
  }

 private:
  Message** chain_of(int from, const Tag& tag) {
    std::uint64_t hash = tag.attempt * 0x9e3779b97f4a7c15U;
    hash = (hash ^ tag.unit) * 0xff51afd7ed558ccdU;
    hash = (hash ^ tag.leg ^ static_cast<std::uint64_t>(from) << 32) * 0xc4ceb9fe1a85ec53U;
    return &chains_[static_cast<std::size_t>(hash >> 32) & (chains_.size() - 1)];
  }

  template <class Wanted>
  Message* unlink(int from, const Tag& tag, Wanted wanted) {
    if (count_ == 0) return nullptr;
    for (Message** at = chain_of(from, tag); *at; at = &(*at)->next) {
      Message* message = *at;
      if (message->from != from || message->tag != tag || !wanted(*message)) continue;
      *at = message->next;
      --count_;
      return message;
    }
    return nullptr;
  }

  void grow() {
    std::vector<Message*> old(std::max<std::size_t>(16, 2 * chains_.size()));
    old.swap(chains_);
    count_ = 0;
    for (Message* message : old)
      while (message) {
        Message* next = message->next;
        add(*message);
        message = next;
      }
  }

  std::vector<Message*> chains_;  // a power of two
  std::size_t count_ = 0;
};

}  // namespace laconic
