// The NEON kernels, one function each; what they compute is said in kernels.h. Built for any arm64 processor,
// linear_codes_dotprod_neon for those with the dot product of bytes, linear_codes_i8mm_neon for those with
// their matrix product too.
#pragma once

#include "exec/cpu/kernels.h"

namespace penstock::exec::cpu {

// Of kernels_scalar.h, whose header holds inline functions that must not be built with wider flags.
void layer_norm_scalar(const float* x, const float* weight, const float* bias, int64_t n, float eps,
                       float* out);
void activate_scalar(Gate function, const float* gate, const float* up, int64_t n, float* out);

void linear_codes_neon(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                       uint8_t* scratch);
void linear_codes_dotprod_neon(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                               uint8_t* scratch);
void linear_codes_i8mm_neon(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                            uint8_t* scratch);
void linear_exact_neon(const PackedCodes& w, const FloatRows& x, Range strips, const LinearOut& out,
                       float* scratch);
void linear_dense_neon(const DenseMatrix& w, const FloatRows& x, Range rows, const LinearOut& out);
void quantize_row_neon(const float* x, const QuantRows& out);
void rms_norm_neon(const float* x, const float* weight, int64_t n, float eps, float* out);
void activate_neon(Gate function, const float* gate, const float* up, int64_t n, float* out);
void add_neon(const float* x, int64_t n, float* y);
void rotate_neon(float* x, const float* cos, const float* sin, int64_t half);
void to_f16_neon(const float* x, int64_t n, uint16_t* out);
void from_f16_neon(const uint16_t* x, int64_t n, float* out);
void from_codes8_neon(const int8_t* codes, int64_t n, float* out);
void from_codes4_neon(const uint8_t* codes, int64_t n, float* out);
void attend_tile_neon(const AttendTile& tile, const AttendQueries& queries);
void merge_partial_neon(const Partial& next, const Partial& into, int64_t n);
void finish_partial_neon(const Partial& from, int64_t n, float* out);
void softcap_neon(float* x, int64_t n, float cap);

}  // namespace penstock::exec::cpu
