// Codes times many activation rows: the codes of 16 rows are unpacked once into a panel of bytes that stays
// in the cache, then multiplied with four activation rows at a time.
#include "exec/cpu/kernels_avx2.h"
#include "exec/cpu/simd_avx2.h"

namespace penstock::exec::cpu {

namespace {

/// sums += kChunk columns (kHalf: 16) of 16 rows and MT activation rows.
template <int kFlush, bool kHalf, int MT>
inline __attribute__((always_inline)) void add_columns(const uint8_t* codes, const int8_t* const (&q)[MT],
                                                       int64_t column, __m256i (&sums)[MT][2]) {
  constexpr int kSteps = kHalf ? 4 : 8;
  __m256i part[MT][2];
#pragma GCC unroll 8
  for (int step = 0; step < kSteps; ++step) {
    const __m256i w0 = load_bytes(codes + step * 64), w1 = load_bytes(codes + step * 64 + 32);
    const bool first = step % kFlush == 0, last = step % kFlush == kFlush - 1 || step + 1 == kSteps;
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) {
      const __m256i x = broadcast4(q[m] + column + 4 * step);
      const __m256i p0 = multiply_pairs<kFlush == 1>(w0, x), p1 = multiply_pairs<kFlush == 1>(w1, x);
      part[m][0] = first ? p0 : _mm256_add_epi16(part[m][0], p0);
      PENSTOCK_KEEP_ORDER(part[m][0]);
      part[m][1] = first ? p1 : _mm256_add_epi16(part[m][1], p1);
      PENSTOCK_KEEP_ORDER(part[m][1]);
      if (!last) continue;
      const __m256i ones = _mm256_set1_epi16(1);
      sums[m][0] = _mm256_add_epi32(sums[m][0], _mm256_madd_epi16(part[m][0], ones));
      sums[m][1] = _mm256_add_epi32(sums[m][1], _mm256_madd_epi16(part[m][1], ones));
    }
  }
}

/// kAhead: asks for the two strips after those of the panel, which lie at `next`, on the way.
template <int kFlush, bool kHalf, int MT, bool kAhead>
void panel_tile(const PackedCodes& w, const QuantRows& x, const CodePanel& panel, int64_t first_m,
                const uint8_t* next, __m256 (&acc)[MT][2]) {
  const int64_t groups = w.groups(), chunks = kHalf ? 1 : w.group / kChunk;
  const int32_t offset = w.offset();
  const bool has_bias = w.has_bias();
  const int8_t* q[MT];
#pragma GCC unroll 4
  for (int m = 0; m < MT; ++m) {
    q[m] = x.codes + (first_m + m) * x.cols;
    acc[m][0] = acc[m][1] = _mm256_setzero_ps();
  }
  const float* scales = x.scales + first_m * groups;
  const float* x_sums = x.sums + first_m * groups;
  const int32_t* code_sums = x.code_sums + first_m * groups;
  const float* weights = panel.scales;
  const uint8_t* codes = panel.codes;
  int64_t column = 0;
  const int64_t ahead = 2 * w.strip_bytes() / groups;
  for (int64_t g = 0; g < groups; ++g, weights += 32, next += ahead) {
    if constexpr (kAhead) prefetch_lines(next, ahead);
    __m256i sums[MT][2];
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m)
      sums[m][0] = sums[m][1] = _mm256_set1_epi32(offset == 0 ? 0 : offset * code_sums[m * groups + g]);
    for (int64_t c = 0; c < chunks; ++c) {
      add_columns<kFlush, kHalf, MT>(codes, q, column, sums);
      codes += kHalf ? 4 * 64 : 8 * 64;
      column += kHalf ? 16 : kChunk;
    }
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) {
      const __m256 a = _mm256_set1_ps(scales[m * groups + g]);
#pragma GCC unroll 2
      for (int s = 0; s < 2; ++s) {
        const __m256 scale = _mm256_mul_ps(_mm256_loadu_ps(weights + s * 16), a);
        acc[m][s] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sums[m][s]), acc[m][s]);
      }
      if (!has_bias) continue;
      const __m256 b = _mm256_set1_ps(x_sums[m * groups + g]);
#pragma GCC unroll 2
      for (int s = 0; s < 2; ++s)
        acc[m][s] = _mm256_fmadd_ps(_mm256_loadu_ps(weights + s * 16 + 8), b, acc[m][s]);
    }
  }
}

template <int kFlush, bool kHalf, int MT, bool kAhead>
void run_tile(const PackedCodes& w, const QuantRows& x, const CodePanel& panel, int64_t m, int64_t strip,
              const LinearOut& out) {
  __m256 acc[MT][2];
  panel_tile<kFlush, kHalf, MT, kAhead>(w, x, panel, m, w.blocks + (strip + 2) * w.strip_bytes(), acc);
  for (int i = 0; i < MT; ++i)
    for (int s = 0; s < 2; ++s) store_rows(out, m + i, (strip + s) * kStripRows, w.rows, acc[i][s]);
}

template <int kFlush, bool kHalf>
void run_panels(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                const CodePanel& panel) {
  const LayoutAvx2& layout = layout_avx2(w.layout);
  for (int64_t strip = strips.first; strip + 2 <= strips.last; strip += 2) {
    layout.unpack_strip(w, strip, 0, panel);
    layout.unpack_strip(w, strip + 1, 1, panel);
    run_tile<kFlush, kHalf, 4, true>(w, x, panel, 0, strip, out);
    int64_t m = 4;
    for (; m + 4 <= x.m; m += 4) run_tile<kFlush, kHalf, 4, false>(w, x, panel, m, strip, out);
    for (; m < x.m; ++m) run_tile<kFlush, kHalf, 1, false>(w, x, panel, m, strip, out);
  }
}

template <int kFlush>
void by_group(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
              const CodePanel& panel) {
  if (w.group < kChunk) return run_panels<kFlush, true>(w, x, strips, out, panel);
  run_panels<kFlush, false>(w, x, strips, out, panel);
}

}  // namespace

void linear_panel_avx2(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                       uint8_t* scratch) {
  const CodePanel panel = {scratch, reinterpret_cast<float*>(scratch + w.cols * 2 * kStripRows)};
  switch (layout_avx2(w.layout).flush) {
    case 1:
      return by_group<1>(w, x, strips, out, panel);
    case 2:
      return by_group<2>(w, x, strips, out, panel);
    case 4:
      return by_group<4>(w, x, strips, out, panel);
    default:
      return by_group<8>(w, x, strips, out, panel);
  }
}

}  // namespace penstock::exec::cpu
