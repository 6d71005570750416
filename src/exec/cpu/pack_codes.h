// Lays integer codes out in strips and planes as the kernels read them. Loader thread and the pool.
#pragma once

#include <functional>

#include "exec/cpu/kernels.h"
#include "exec/cpu/thread_pool.h"
#include "quant/matrix.h"

namespace penstock::exec::cpu {

/// Chooses the layout, the narrowest exact scales by a sample of the rows, and the zero point where there is
/// one; `blocks` stays null. False when the kernels do not take the matrix as integers.
bool plan_codes(const quant::Matrix& matrix, PackedCodes& codes);

/// Packs to `blocks` [strips][strip_bytes] on all threads of the pool, some MB at a time; `done(first, last)`
/// is told rows that will not be read again. False when a scale or a bias was not as the sample promised;
/// float32 scales with stored biases always fit.
bool pack_codes(const quant::Matrix& matrix, const PackedCodes& to, ThreadPool& pool, uint8_t* blocks,
                const std::function<void(int64_t first, int64_t last)>& done);

}  // namespace penstock::exec::cpu
