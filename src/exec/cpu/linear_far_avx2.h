// Sums of the codes of two far strips times one activation row, which share what is read of the row. Private
// to the file that includes it.
#pragma once

#include "exec/cpu/linear_strips_avx2.h"

namespace penstock::exec::cpu {

namespace {

/// A chunk of two far strips.
template <class C>
struct FarChunk {
  const C first, second;

  template <int kStep>
  inline __attribute__((always_inline)) void load(__m256i (&w)[2]) const {
    w[0] = first.template step<kStep>();
    w[1] = second.template step<kStep>();
  }
};

}  // namespace

/// Steps [kFirst + kDone, kEnd) of the raised codes of two strips, not summed beyond 16 bits.
template <int kFirst, int kEnd, bool kStarts, int kDone = 0, class C>
static inline __attribute__((always_inline)) void add_raised(const FarChunk<C>& chunk, const int8_t* q,
                                                             __m256i (&part)[2]) {
  constexpr int kStep = kFirst + kDone;
  if constexpr (kStep < kEnd) {
    const __m256i x = broadcast4(q + 4 * kStep);
    const __m256i w[2] = {chunk.first.template raised<kStep>(), chunk.second.template raised<kStep>()};
#pragma GCC unroll 2
    for (int s = 0; s < 2; ++s) {
      const __m256i product = _mm256_maddubs_epi16(w[s], x);
      part[s] = kStarts && kDone == 0 ? product : _mm256_add_epi16(part[s], product);
      PENSTOCK_KEEP_ORDER(part[s]);
    }
    add_raised<kFirst, kEnd, kStarts, kDone + 1>(chunk, q, part);
  }
}

/// A chunk of raised codes: sums of steps 0 to 3, and four times those of steps 4 to 7. A vector of codes is
/// read once for both.
template <bool kStarts, class C>
static inline __attribute__((always_inline)) void add_raised_chunk(const FarChunk<C>& chunk, const int8_t* q,
                                                                   __m256i (&low)[2], __m256i (&high)[2]) {
  add_raised<0, 2, kStarts>(chunk, q, low);
  add_raised<4, 6, true>(chunk, q, high);
  add_raised<2, 4, false>(chunk, q, low);
  add_raised<6, 8, false>(chunk, q, high);
}

/// Sums of the next group of two strips, or of a pair of groups of 16 columns that share a chunk; `at` and
/// `q` are moved behind it.
template <class C, bool kHalf>
static inline __attribute__((always_inline)) void sum_far(const CodeShape& shape, const uint8_t* (&at)[2],
                                                          const int8_t*& q,
                                                          __m256i (&sum)[kHalf ? 2 : 1][2][1]) {
  const int64_t ahead = shape.ahead, chunks = shape.chunks;
  const auto chunk = [&]() __attribute__((always_inline)) {
    prefetch_lines(at[0] + ahead, C::kBytes);
    prefetch_lines(at[1] + ahead, C::kBytes);
    return FarChunk<C>{C(at[0]), C(at[1])};
  };
  const auto next = [&]() __attribute__((always_inline)) {
    at[0] += C::kBytes;
    at[1] += C::kBytes;
    q += kChunk;
  };
  if constexpr (C::kRaised) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i low[2], high[2];
    add_raised_chunk<true>(chunk(), q, low, high);
    next();
    if constexpr (kHalf) {
#pragma GCC unroll 2
      for (int s = 0; s < 2; ++s) {
        sum[0][s][0] = _mm256_madd_epi16(low[s], ones);
        sum[1][s][0] = _mm256_srai_epi32(_mm256_madd_epi16(high[s], ones), 2);
      }
      return;
    }
    // Sums of 128 columns fit 16 bits.
    const auto fold = [&](int s) __attribute__((always_inline)) {
      low[s] = _mm256_add_epi16(low[s], _mm256_srai_epi16(high[s], 2));
    };
    fold(0);
    fold(1);
    for (int64_t c = 1; c < chunks; ++c, next()) {
      add_raised_chunk<false>(chunk(), q, low, high);
      fold(0);
      fold(1);
    }
#pragma GCC unroll 2
    for (int s = 0; s < 2; ++s) sum[0][s][0] = _mm256_madd_epi16(low[s], ones);
  } else {
    __m256i part[2][1];
    const int8_t* const x[1] = {q};
    if constexpr (kHalf) {
      const FarChunk<C> both = chunk();
      add_steps<C, true, 0, 4>(both, x, 0, part, sum[0]);
      add_steps<C, true, 4, 8>(both, x, 0, part, sum[1]);
      next();
      return;
    }
    add_steps<C, true, 0, 8>(chunk(), x, 0, part, sum[0]);
    next();
    for (int64_t c = 1; c < chunks; ++c, next()) {
      const int8_t* const more[1] = {q};
      add_steps<C, false, 0, 8>(chunk(), more, 0, part, sum[0]);
    }
  }
}

}  // namespace penstock::exec::cpu
