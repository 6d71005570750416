// What keys are divided by before they are quantised. Pure functions.
#pragma once

#include <vector>

#include "ops/operation.h"

namespace penstock::ops {

/// [kv_heads * head_dim], powers of two. Some dimensions of a key are large in every token: those with a
/// large bias, a large weight of the key's norm or a long row of the matrix. In a quantised cache they would
/// take the bits of all that share their scale, so a key is divided by its usual size and the queries of its
/// head are multiplied by it, both exactly. The two dimensions that a rotation mixes have one divisor. `rope`
/// may be null.
std::vector<float> key_divisors(const AttnIn& op, const Rope* rope, const WeightTable& weights);

}  // namespace penstock::ops
