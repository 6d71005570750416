// The AVX2 kernels, one function each; what they compute is said in kernels.h. Built with -mavx2 -mfma
// -mf16c.
#pragma once

#include "exec/cpu/kernels.h"

namespace penstock::exec::cpu {

void linear_codes_avx2(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                       uint8_t* scratch);

/// Rows of the panel that linear_exact unpacks to.
inline constexpr int64_t kExactRows = kExactStrips * kStripRows;

/// What depends on how codes lie in memory.
struct LayoutAvx2 {
  void (*multiply_strips)(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out);
  /// Pairs of strips, an odd last one is left out; at least four activation rows.
  void (*multiply_panels)(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                          uint8_t* scratch);
  /// Columns [first, first + n) to to[column * kExactRows + row]; both are multiples of 32.
  void (*unpack_floats)(const PackedCodes& w, int64_t strip, int64_t first, int64_t n, float* to);
};

const LayoutAvx2& two_avx2();
const LayoutAvx2& three_avx2();
const LayoutAvx2& four_avx2();
const LayoutAvx2& five_avx2();
const LayoutAvx2& six_avx2();
const LayoutAvx2& eight_avx2();
const LayoutAvx2& fp4_avx2();
const LayoutAvx2& layout_avx2(CodeLayout layout);

/// linear_exact of E4M3 numbers.
void linear_fp8_avx2(const PackedCodes& w, const FloatRows& x, Range strips, const LinearOut& out,
                     float* scratch);
void linear_exact_avx2(const PackedCodes& w, const FloatRows& x, Range strips, const LinearOut& out,
                       float* scratch);
void linear_dense_avx2(const DenseMatrix& w, const FloatRows& x, Range rows, const LinearOut& out);
void quantize_row_avx2(const float* x, const QuantRows& out);
void rms_norm_avx2(const float* x, const float* weight, int64_t n, float eps, float* out);
void layer_norm_avx2(const float* x, const float* weight, const float* bias, int64_t n, float eps,
                     float* out);
void activate_avx2(Gate function, const float* gate, const float* up, int64_t n, float* out);
void add_avx2(const float* x, int64_t n, float* y);
void rotate_avx2(float* x, const float* cos, const float* sin, int64_t half);
void to_f16_avx2(const float* x, int64_t n, uint16_t* out);
void from_f16_avx2(const uint16_t* x, int64_t n, float* out);
void from_codes8_avx2(const int8_t* codes, int64_t n, float* out);
void from_codes4_avx2(const uint8_t* codes, int64_t n, float* out);
void attend_tile_avx2(const AttendTile& tile, const AttendQueries& queries);
void merge_partial_avx2(const Partial& next, const Partial& into, int64_t n);
void finish_partial_avx2(const Partial& from, int64_t n, float* out);
void softcap_avx2(float* x, int64_t n, float cap);

}  // namespace penstock::exec::cpu
