// The portable kernels, one function each; what they compute is said in kernels.h.
#pragma once

#include "exec/cpu/kernels.h"
#include "tensor/dtype.h"

namespace penstock::exec::cpu {

/// The code of one column of a block, zero point not taken off.
int32_t code_at(const PackedCodes& w, const uint8_t* block, int lane, int column);

/// The number of one column of a block in the layout kFp8.
float number_at(const PackedCodes& w, const uint8_t* block, int lane, int column);

/// Scale and stored bias of one group of a block.
float scale_at(const PackedCodes& w, const uint8_t* block, int group, int lane);
float bias_at(const PackedCodes& w, const uint8_t* block, int group, int lane);

/// Adds the bias, then writes or adds one output.
void store_output(const LinearOut& out, int64_t m, int64_t row, float value);

/// Exact also where denormals are zero, unlike tensor::f16_to_f32.
float half_to_float(uint16_t bits);

/// 2 to the power x, x clamped to -125..126: kExp2 of x minus the nearest integer, which is added to the
/// exponent; NaN stays NaN.
float exp2_scalar(float x);

/// Sum of 8 lanes: (l0+l4)+(l2+l6) + (l1+l5)+(l3+l7).
float fold8(const float* lanes);

void linear_codes_scalar(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                         uint8_t* scratch);
void linear_exact_scalar(const PackedCodes& w, const FloatRows& x, Range strips, const LinearOut& out,
                         float* scratch);
void linear_dense_scalar(const DenseMatrix& w, const FloatRows& x, Range rows, const LinearOut& out);
void quantize_row_scalar(const float* x, const QuantRows& out);
void rms_norm_scalar(const float* x, const float* weight, int64_t n, float eps, float* out);
void layer_norm_scalar(const float* x, const float* weight, const float* bias, int64_t n, float eps,
                       float* out);
void activate_scalar(Gate function, const float* gate, const float* up, int64_t n, float* out);
void add_scalar(const float* x, int64_t n, float* y);
void rotate_scalar(float* x, const float* cos, const float* sin, int64_t half);
void to_f16_scalar(const float* x, int64_t n, uint16_t* out);
void from_f16_scalar(const uint16_t* x, int64_t n, float* out);
void from_codes8_scalar(const int8_t* codes, int64_t n, float* out);
void from_codes4_scalar(const uint8_t* codes, int64_t n, float* out);
void attend_tile_scalar(const AttendTile& tile, const AttendQueries& queries);
void merge_partial_scalar(const Partial& next, const Partial& into, int64_t n);
void finish_partial_scalar(const Partial& from, int64_t n, float* out);
void softcap_scalar(float* x, int64_t n, float cap);

}  // namespace penstock::exec::cpu
