// The AVX-512 kernels, one function each; what they compute is said in kernels.h. Built with -mavx512f
// -mavx512bw -mavx512dq -mavx512vl -mavx512vnni.
#pragma once

#include "exec/cpu/kernels.h"

namespace penstock::exec::cpu {

void linear_codes_avx512(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                         uint8_t* scratch);
void quantize_row_avx512(const float* x, const QuantRows& out);
void rms_norm_avx512(const float* x, const float* weight, int64_t n, float eps, float* out);
void activate_avx512(Gate function, const float* gate, const float* up, int64_t n, float* out);
void add_avx512(const float* x, int64_t n, float* y);
void attend_tile_avx512(const AttendTile& tile, const AttendQueries& queries);

}  // namespace penstock::exec::cpu
