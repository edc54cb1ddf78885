// Stages that another is made of.
#pragma once

#include "laconic/operators/indexed.h"

namespace laconic {

// From arguments with the parameters `density` and `index`.
std::shared_ptr<const Selector> make_topk(const Args& args);

std::shared_ptr<const Quantiser> make_sign();

}  // namespace laconic
