// The AVX-512 kernels, one function each; what they compute is said in kernels.h. Built with -mavx512f
// -mavx512bw -mavx512dq -mavx512vl -mavx512vnni.
#pragma once

#include "exec/cpu/kernels.h"

namespace penstock::exec::cpu {

void linear_codes_avx512(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                         uint8_t* scratch);
void attend_tile_avx512(const AttendTile& tile, const AttendQueries& queries);

}  // namespace penstock::exec::cpu
