// Weights as operations name them: an id into a table of stored matrices. Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "quant/matrix.h"

namespace penstock::ops {

/// Index into the plan's weights and the WeightTable; kNoWeight where an optional weight is absent.
using WeightId = int32_t;
inline constexpr WeightId kNoWeight = -1;

/// One stored matrix for each weight of a plan, in the plan's order. A vector is a matrix of one row.
/// Views into the checkpoint, which must outlive the table.
using WeightTable = std::vector<quant::Matrix>;

/// Index into the plan's buffers.
using BufferId = int32_t;

}  // namespace penstock::ops
