// Sizes of the paged cache that host and device share.
#pragma once

#include <cstdint>

namespace penstock::exec::cuda {

inline constexpr int32_t kBlockTokens = 64;       // positions of a block
inline constexpr int32_t kPartitionTokens = 256;  // positions of one partial softmax

}  // namespace penstock::exec::cuda
