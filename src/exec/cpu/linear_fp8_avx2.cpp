// E4M3 numbers times float32 activations: one row straight from the bytes of four far strips, more by the
// panels of linear_exact.
#include "exec/cpu/codes_x86.h"
#include "exec/cpu/kernels_avx2.h"

namespace penstock::exec::cpu {

namespace {

constexpr int64_t kNumberBytes = kChunk * kStripRows;

/// Scales of one chunk, for numbers read as halves, which are 2^8 times too small.
inline __attribute__((always_inline)) __m256 half_scales(const uint8_t* chunk) {
  return Ymm::times(Ymm::all(256), Ymm::e8m0(chunk + kNumberBytes));
}

/// Four columns of eight rows.
inline __attribute__((always_inline)) void read_columns(const uint8_t* at, __m256 scale, __m256 (&to)[4]) {
  // The sign is moved up past a bit that a half has and the byte lacks.
  const __m256i bytes = load_bytes(at), mask = _mm256_set1_epi16(-0x4080);
  const __m256i odd = _mm256_and_si256(_mm256_srai_epi16(bytes, 1), mask);
  const __m256i even = _mm256_and_si256(_mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 1), mask);
  to[0] = Ymm::times(scale, _mm256_cvtph_ps(_mm256_castsi256_si128(even)));
  to[1] = Ymm::times(scale, _mm256_cvtph_ps(_mm256_castsi256_si128(odd)));
  to[2] = Ymm::times(scale, _mm256_cvtph_ps(_mm256_extracti128_si256(even, 1)));
  to[3] = Ymm::times(scale, _mm256_cvtph_ps(_mm256_extracti128_si256(odd, 1)));
}

/// One row of x against four strips. A running sum is one chain of multiply-adds, so that four of them hide
/// its latency.
void one_row(const PackedCodes& w, const float* x, const uint8_t* (&at)[4], __m256 (&acc)[4]) {
  constexpr int64_t kAhead = 1024;
#pragma GCC unroll 4
  for (int s = 0; s < 4; ++s) acc[s] = _mm256_setzero_ps();
  for (int64_t g = 0; g < w.groups(); ++g, x += kChunk) {
    __m256 scale[4];
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s) {
      prefetch_lines(at[s] + kAhead, kNumberBytes);
      scale[s] = half_scales(at[s]);
    }
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v)
#pragma GCC unroll 4
      for (int s = 0; s < 4; ++s) {
        __m256 columns[4];
        read_columns(at[s] + 32 * v, scale[s], columns);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i)
          acc[s] = _mm256_fmadd_ps(columns[i], _mm256_set1_ps(x[4 * v + i]), acc[s]);
      }
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s) at[s] += kNumberBytes + kStripRows;
  }
}

/// Columns [first, first + n), whole chunks, of one strip to to[column * kExactRows + 0..7].
void unpack_numbers(const PackedCodes& w, int64_t strip, int64_t first, int64_t n, float* to) {
  const uint8_t* chunk = w.blocks + strip * w.strip_bytes() + first / kChunk * w.block_bytes();
  for (int64_t c = 0; c < n; c += kChunk, chunk += w.block_bytes())
    for (int64_t v = 0; v < 8; ++v) {
      __m256 columns[4];
      read_columns(chunk + 32 * v, half_scales(chunk), columns);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) _mm256_storeu_ps(to + (c + 4 * v + i) * kExactRows, columns[i]);
    }
}

}  // namespace

const LayoutAvx2& fp8_avx2() {
  static constexpr LayoutAvx2 kLayout = {nullptr, nullptr, unpack_numbers};
  return kLayout;
}

void one_row_fp8_avx2(const PackedCodes& w, const float* x, Range strips, const LinearOut& out) {
  const int64_t quarter = (strips.last - strips.first + 3) / 4, bytes = w.strip_bytes();
  for (int64_t i = strips.first; i < strips.first + quarter; ++i) {
    const uint8_t* at[4];
    int64_t row[4];
    __m256 acc[4];
    for (int s = 0; s < 4; ++s) {
      const int64_t wanted = i + s * quarter;
      const bool present = wanted < strips.last;
      at[s] = w.blocks + (present ? wanted : i) * bytes;
      row[s] = (present ? wanted : w.strips()) * kStripRows;
    }
    one_row(w, x, at, acc);
    for (int s = 0; s < 4; ++s) store_rows(out, 0, row[s], w.rows, acc[s]);
  }
}

}  // namespace penstock::exec::cpu
