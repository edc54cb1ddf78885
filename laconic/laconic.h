// Laconic for C++ users: the one include.
//
//   const auto op = laconic::parse_operator("natural+entropy");
//   const laconic::Buffer frame = laconic::compress(op, gradient);
//   const std::vector<float> decoded = laconic::decompress(frame.view());
//
// In training, an aggregator does this for every slice and every rank: see
// laconic/exchange/gather.cpp.
#pragma once

#include "laconic/base/errors.h"
#include "laconic/exchange/aggregator.h"
#include "laconic/exchange/conversation.h"
#include "laconic/exchange/gossip/mixer.h"
#include "laconic/exchange/gossip/spectrum.h"
#include "laconic/frame/frame.h"
#include "laconic/kernels/cpu.h"
#include "laconic/layout/layout.h"
#include "laconic/memory/memory.h"
#include "laconic/memory/redistribute.h"
#include "laconic/methods/method.h"
#include "laconic/operators/operator.h"
#include "laconic/transports/callbacks.h"
#include "laconic/transports/modelled.h"
#include "laconic/transports/mpi.h"
#include "laconic/transports/sockets.h"
#include "laconic/transports/threads.h"
#include "laconic/version.h"

namespace laconic {

// One array as one frame. The same seed gives the same bytes, on every CPU.
Buffer compress(const Operator& op, std::span<const float> x, std::uint64_t seed = 0);

// The array of a frame. Throws DataError for anything that is not a whole, valid frame.
std::vector<float> decompress(ByteView frame, const FrameLimits& limits = {});

}  // namespace laconic
