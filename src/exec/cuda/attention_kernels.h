// The tensor-core attention kernels, one source file each.
#pragma once

#include "exec/cuda/attention.h"

namespace penstock::exec::cuda {

/// Decode: head sizes 64, 128 and 256, float16 cache, at most 8 q heads for a kv head.
void attend_fast(const AttendArguments& arguments, int32_t tokens, cudaStream_t stream);

}  // namespace penstock::exec::cuda
