// E4M3 numbers times float32 activations: one row straight from the bytes of four far strips, more by panels
// of four strips and one group of columns.
#include "exec/cpu/codes_x86.h"
#include "exec/cpu/kernels_avx2.h"

namespace penstock::exec::cpu {

namespace {

constexpr int64_t kNumberBytes = kChunk * kStripRows;
constexpr int64_t kGroupBytes = kNumberBytes + kStripRows;

// A number whose bits stand in those of a float, exponent over exponent, is 2^120 times too small, the
// numbers below the least normal one too. That costs half of what a conversion from half precision does.
// Activations are made larger at once, so that sums are floats like others, and scales make up for the rest.
constexpr float kLarger = 0x1p80f, kScaleLarger = 0x1p40f;

/// The least numbers are denormal floats here.
class DenormalsKept {
 public:
  DenormalsKept() : before_(_mm_getcsr()) { _mm_setcsr(before_ & ~0x8040u); }
  ~DenormalsKept() { _mm_setcsr(before_); }
  DenormalsKept(const DenormalsKept&) = delete;
  DenormalsKept& operator=(const DenormalsKept&) = delete;

 private:
  const uint32_t before_;
};

inline __attribute__((always_inline)) __m256 larger_scales(const uint8_t* group) {
  return Ymm::times(Ymm::all(kScaleLarger), Ymm::e8m0(group + kNumberBytes));
}

/// Four columns of eight rows.
inline __attribute__((always_inline)) void read_columns(const uint8_t* at, __m256 (&to)[4]) {
  const __m256i bytes = load_bytes(at), mask = _mm256_set1_epi16(static_cast<int16_t>(0x87f0));
  const __m256i upper = _mm256_set1_epi32(static_cast<int32_t>(0xffff0000));
  const __m256i odd = _mm256_and_si256(_mm256_srai_epi16(bytes, 4), mask);
  const __m256i even = _mm256_and_si256(_mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 4), mask);
  to[0] = _mm256_castsi256_ps(_mm256_slli_epi32(even, 16));
  to[1] = _mm256_castsi256_ps(_mm256_slli_epi32(odd, 16));
  to[2] = _mm256_castsi256_ps(_mm256_and_si256(even, upper));
  to[3] = _mm256_castsi256_ps(_mm256_and_si256(odd, upper));
}

/// One row of x against four strips, whose running sums hide each other's latency. Not inlined: the compiler
/// moves arithmetic past a change of mode.
__attribute__((noinline)) void one_row(const PackedCodes& w, const float* x, const uint8_t* (&at)[4],
                                       __m256 (&acc)[4]) {
  constexpr int64_t kAhead = 1024;
  const int64_t groups = w.groups();
#pragma GCC unroll 4
  for (int s = 0; s < 4; ++s) acc[s] = _mm256_setzero_ps();
  for (int64_t g = 0; g < groups; ++g, x += kChunk) {
    alignas(32) float large[kChunk];
#pragma GCC unroll 4
    for (int i = 0; i < kChunk; i += 8)
      _mm256_store_ps(large + i, Ymm::times(Ymm::all(kLarger), _mm256_loadu_ps(x + i)));
    __m256 sum[4];
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s) {
      prefetch_lines(at[s] + kAhead, kNumberBytes);
      sum[s] = _mm256_setzero_ps();
    }
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v)
#pragma GCC unroll 4
      for (int s = 0; s < 4; ++s) {
        __m256 columns[4];
        read_columns(at[s] + 32 * v, columns);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i)
          sum[s] = _mm256_fmadd_ps(columns[i], _mm256_set1_ps(large[4 * v + i]), sum[s]);
        PENSTOCK_KEEP_ORDER(sum[s]);
      }
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s) {
      acc[s] = _mm256_fmadd_ps(sum[s], larger_scales(at[s]), acc[s]);
      at[s] += kGroupBytes;
    }
  }
}

/// One group of four strips as floats.
struct Panel {
  float columns[kChunk][kExactRows];
  float scales[kExactRows];
};

void unpack(const uint8_t* group, int64_t strip, Panel& panel) {
  for (int64_t v = 0; v < 8; ++v) {
    __m256 columns[4];
    read_columns(group + 32 * v, columns);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) _mm256_storeu_ps(panel.columns[4 * v + i] + strip * kStripRows, columns[i]);
  }
  _mm256_storeu_ps(panel.scales + strip * kStripRows, larger_scales(group));
}

/// acc[m][32 rows] takes the group, whose activations are x[m][32].
template <int MT>
void multiply_panel(const Panel& panel, const float* x, int64_t stride, float* acc) {
  __m256 sum[MT][kExactStrips];
#pragma GCC unroll 4
  for (int m = 0; m < MT; ++m)
#pragma GCC unroll 4
    for (int s = 0; s < kExactStrips; ++s) sum[m][s] = _mm256_setzero_ps();
  for (int64_t c = 0; c < kChunk; ++c) {
    __m256 value[MT];
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) value[m] = Ymm::times(Ymm::all(kLarger), _mm256_set1_ps(x[m * stride + c]));
#pragma GCC unroll 4
    for (int s = 0; s < kExactStrips; ++s) {
      const __m256 weight = _mm256_loadu_ps(panel.columns[c] + s * kStripRows);
#pragma GCC unroll 4
      for (int m = 0; m < MT; ++m) sum[m][s] = _mm256_fmadd_ps(weight, value[m], sum[m][s]);
    }
  }
#pragma GCC unroll 4
  for (int m = 0; m < MT; ++m)
#pragma GCC unroll 4
    for (int s = 0; s < kExactStrips; ++s) {
      float* to = acc + m * kExactRows + s * kStripRows;
      const __m256 scale = _mm256_loadu_ps(panel.scales + s * kStripRows);
      _mm256_storeu_ps(to, _mm256_fmadd_ps(sum[m][s], scale, _mm256_loadu_ps(to)));
    }
}

/// Strips [first, first + n), n at most kExactStrips, times all rows of x.
__attribute__((noinline)) void multiply_strips(const PackedCodes& w, const FloatRows& x, int64_t first,
                                               int64_t n, float* acc) {
  Panel panel;
  for (int64_t i = 0; i < x.m * kExactRows; i += 8) _mm256_storeu_ps(acc + i, _mm256_setzero_ps());
  for (int64_t g = 0; g < w.groups(); ++g) {
    for (int64_t s = 0; s < kExactStrips; ++s)
      unpack(w.blocks + (first + (s < n ? s : 0)) * w.strip_bytes() + g * kGroupBytes, s, panel);
    const float* from = x.x + g * kChunk;
    int64_t m = 0;
    for (; m + 3 <= x.m; m += 3)
      multiply_panel<3>(panel, from + m * x.stride, x.stride, acc + m * kExactRows);
    if (x.m - m == 2) multiply_panel<2>(panel, from + m * x.stride, x.stride, acc + m * kExactRows);
    if (x.m - m == 1) multiply_panel<1>(panel, from + m * x.stride, x.stride, acc + m * kExactRows);
  }
}

void multiply_one(const PackedCodes& w, const float* x, Range strips, const LinearOut& out) {
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
    {
      const DenormalsKept kept;
      one_row(w, x, at, acc);
    }
    for (int s = 0; s < 4; ++s) store_rows(out, 0, row[s], w.rows, acc[s]);
  }
}

}  // namespace

void linear_fp8_avx2(const PackedCodes& w, const FloatRows& x, Range strips, const LinearOut& out,
                     float* scratch) {
  if (x.m == 1) return multiply_one(w, x.x, strips, out);
  for (int64_t first = strips.first; first < strips.last; first += kExactStrips) {
    const int64_t n = strips.last - first < kExactStrips ? strips.last - first : kExactStrips;
    {
      const DenormalsKept kept;
      multiply_strips(w, x, first, n, scratch);
    }
    for (int64_t m = 0; m < x.m; ++m)
      for (int64_t s = 0; s < n; ++s)
        store_rows(out, m, (first + s) * kStripRows, w.rows,
                   _mm256_loadu_ps(scratch + m * kExactRows + s * kStripRows));
  }
}

}  // namespace penstock::exec::cpu
