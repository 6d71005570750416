// What the AVX2 kernels share. Every function is static: code built for AVX2 must never be merged with a
// function of the same name built for less. Includes only intrinsics.
#pragma once

#include <immintrin.h>

#include "exec/cpu/kernels.h"

// GCC 12 hoists the products of an integer accumulate chain and spills them; an empty asm keeps the order.
#define PENSTOCK_KEEP_ORDER(value) asm volatile("" : "+x"(value))

namespace penstock::exec::cpu {

static inline __m256i load_bytes(const void* at) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(at));
}

static inline __m256i broadcast4(const int8_t* at) {
  int32_t value;
  __builtin_memcpy(&value, at, sizeof(value));
  return _mm256_set1_epi32(value);
}

/// Products of four columns of eight rows with four activations, summed by pairs to 16 bits.
template <bool kSigned>
static inline __m256i multiply_pairs(__m256i code, __m256i x4) {
  if constexpr (kSigned) return _mm256_maddubs_epi16(_mm256_abs_epi8(code), _mm256_sign_epi8(x4, code));
  return _mm256_maddubs_epi16(code, x4);
}

/// The first n lanes set, n in 0..8.
static inline __m256i first_lanes(int64_t n) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), index);
}

/// Always inlined: GCC 12 takes a function that only prefetches for one without effect and drops its calls.
static inline __attribute__((always_inline)) void prefetch_lines(const uint8_t* at, int64_t bytes) {
  for (int64_t line = 0; line < bytes; line += 64)
    _mm_prefetch(reinterpret_cast<const char*>(at + line), _MM_HINT_T0);
}

/// Sum of 8 lanes in the order of fold8.
static inline float fold(__m256 v) {
  const __m128 a = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 b = _mm_add_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

/// Largest of 8 lanes.
static inline float fold_max(__m256 v) {
  __m128 a = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  a = _mm_max_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}

/// exp2_scalar on 8 lanes.
static inline __m256 exp2_lanes(__m256 x) {
  x = _mm256_min_ps(_mm256_set1_ps(126.0f), _mm256_max_ps(_mm256_set1_ps(-125.0f), x));
  const __m256 n = _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256 f = _mm256_sub_ps(x, n);
  __m256 p = _mm256_set1_ps(kExp2[5]);
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(kExp2[4]));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(kExp2[3]));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(kExp2[2]));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(kExp2[1]));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(kExp2[0]));
  const __m256i power = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), power));
}

/// Adds the bias, then writes or adds the rows [row, row + 8) of one output row, those below `rows`.
static inline void store_rows(const LinearOut& out, int64_t m, int64_t row, int64_t rows, __m256 value) {
  float* at = out.out + m * out.stride + row;
  if (row + kStripRows <= rows) {
    if (out.bias != nullptr) value = _mm256_add_ps(value, _mm256_loadu_ps(out.bias + row));
    if (out.add) value = _mm256_add_ps(_mm256_loadu_ps(at), value);
    _mm256_storeu_ps(at, value);
    return;
  }
  if (row >= rows) return;
  const __m256i mask = first_lanes(rows - row);
  if (out.bias != nullptr) value = _mm256_add_ps(value, _mm256_maskload_ps(out.bias + row, mask));
  if (out.add) value = _mm256_add_ps(_mm256_maskload_ps(at, mask), value);
  _mm256_maskstore_ps(at, mask, value);
}

}  // namespace penstock::exec::cpu
