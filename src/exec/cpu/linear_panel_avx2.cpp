// Four-bit codes times many activation rows: the codes of 16 rows are unpacked once into a panel of bytes
// that stays in the cache, then multiplied with four activation rows at a time.
#include "exec/cpu/kernels_avx2.h"
#include "exec/cpu/simd_avx2.h"

namespace penstock::exec::cpu {

namespace {

/// Two strips as kernels read them: bytes [cols / 4][2 strips][8 rows][4 columns], and in float32
/// [groups][2 strips][scales, biases][8].
struct Panel {
  uint8_t* codes;
  float* scales;
};

void unpack_strip(const PackedCodes& w, const uint8_t* strip, int which, const Panel& panel) {
  const __m256i low = _mm256_set1_epi8(15);
  const int64_t code_bytes = w.code_bytes(), half_bytes = kStripRows * w.scale_bytes();
  uint8_t* to = panel.codes + which * 32;
  float* scales = panel.scales + which * 16;
  for (int64_t g = 0; g < w.groups(); ++g, strip += w.block_bytes(), scales += 32) {
    for (int64_t line = 0; line < w.block_bytes(); line += 64)  // the same strip of the next panel
      _mm_prefetch(reinterpret_cast<const char*>(strip + 2 * w.strip_bytes() + line), _MM_HINT_T1);
    _mm256_storeu_ps(scales, load_scales(w.scale_type, strip + code_bytes));
    _mm256_storeu_ps(scales + 8, load_scales(w.scale_type, strip + code_bytes + half_bytes));
    for (int64_t at = 0; at < code_bytes; at += 32, to += 128) {
      const __m256i codes = load_bytes(strip + at);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_and_si256(codes, low));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 64),
                          _mm256_and_si256(_mm256_srli_epi16(codes, 4), low));
    }
  }
}

/// The exact sums of one group for 16 rows and MT activation rows.
template <int G, int MT>
inline __attribute__((always_inline)) void group_sums(const uint8_t* codes, const int8_t* const (&q)[MT],
                                                      int64_t column, __m256i (&sums)[MT][2]) {
  constexpr int kChunk = G < 32 ? G : 32;  // eight products of at most 2 * 15 * 127 fit 16 bits
  const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
  for (int c = 0; c < G; c += kChunk) {
    __m256i part[MT][2];
#pragma GCC unroll 8
    for (int step = 0; step < kChunk / 4; ++step) {
      const __m256i w0 = load_bytes(codes + (c / 4 + step) * 64);
      const __m256i w1 = load_bytes(codes + (c / 4 + step) * 64 + 32);
#pragma GCC unroll 4
      for (int m = 0; m < MT; ++m) {
        const __m256i x = broadcast4(q[m] + column + c + 4 * step);
        const __m256i p0 = _mm256_maddubs_epi16(w0, x), p1 = _mm256_maddubs_epi16(w1, x);
        part[m][0] = step == 0 ? p0 : _mm256_add_epi16(part[m][0], p0);
        PENSTOCK_KEEP_ORDER(part[m][0]);
        part[m][1] = step == 0 ? p1 : _mm256_add_epi16(part[m][1], p1);
        PENSTOCK_KEEP_ORDER(part[m][1]);
      }
    }
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m)
#pragma GCC unroll 2
      for (int s = 0; s < 2; ++s) {
        const __m256i wide = _mm256_madd_epi16(part[m][s], ones);
        sums[m][s] = c == 0 ? wide : _mm256_add_epi32(sums[m][s], wide);
      }
  }
}

template <int G, int MT>
void panel_tile(const PackedCodes& w, const QuantRows& x, const Panel& panel, int64_t first_m,
                __m256 (&acc)[MT][2]) {
  const int64_t groups = w.groups();
  const int8_t* q[MT];
#pragma GCC unroll 4
  for (int m = 0; m < MT; ++m) {
    q[m] = x.codes + (first_m + m) * x.cols;
    acc[m][0] = acc[m][1] = _mm256_setzero_ps();
  }
  const float* scales = x.scales + first_m * groups;
  const float* x_sums = x.sums + first_m * groups;
  const float* weights = panel.scales;
  for (int64_t g = 0; g < groups; ++g, weights += 32) {
    __m256i sums[MT][2];
    group_sums<G, MT>(panel.codes + g * G * 16, q, g * G, sums);
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) {
      const __m256 a = _mm256_set1_ps(scales[m * groups + g]);
      const __m256 b = _mm256_set1_ps(x_sums[m * groups + g]);
#pragma GCC unroll 2
      for (int s = 0; s < 2; ++s) {
        const __m256 scale = _mm256_mul_ps(_mm256_loadu_ps(weights + s * 16), a);
        acc[m][s] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sums[m][s]), acc[m][s]);
        acc[m][s] = _mm256_fmadd_ps(_mm256_loadu_ps(weights + s * 16 + 8), b, acc[m][s]);
      }
    }
  }
}

template <int G, int MT>
void run_tile(const PackedCodes& w, const QuantRows& x, const Panel& panel, int64_t m, int64_t strip,
              const LinearOut& out) {
  __m256 acc[MT][2];
  panel_tile<G, MT>(w, x, panel, m, acc);
  for (int i = 0; i < MT; ++i)
    for (int s = 0; s < 2; ++s) store_rows(out, m + i, (strip + s) * kStripRows, w.rows, acc[i][s]);
}

template <int G>
void run_panels(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                const Panel& panel) {
  const int64_t bytes = w.strip_bytes();
  for (int64_t strip = strips.first; strip + 2 <= strips.last; strip += 2) {
    unpack_strip(w, w.blocks + strip * bytes, 0, panel);
    unpack_strip(w, w.blocks + (strip + 1) * bytes, 1, panel);
    int64_t m = 0;
    for (; m + 4 <= x.m; m += 4) run_tile<G, 4>(w, x, panel, m, strip, out);
    for (; m < x.m; ++m) run_tile<G, 1>(w, x, panel, m, strip, out);
  }
}

}  // namespace

void linear_panel_avx2(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                       uint8_t* scratch) {
  const Panel panel = {scratch, reinterpret_cast<float*>(scratch + w.cols * 2 * kStripRows)};
  switch (w.group) {
    case 16:
      return run_panels<16>(w, x, strips, out, panel);
    case 32:
      return run_panels<32>(w, x, strips, out, panel);
    case 64:
      return run_panels<64>(w, x, strips, out, panel);
    default:
      return run_panels<128>(w, x, strips, out, panel);
  }
}

}  // namespace penstock::exec::cpu
