// Codes times one activation row, straight from the codes of two far strips that share what is read of the
// row. Scales of the types that files have are read by code made for the type.
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

/// Scales of any type.
class AnyScales {
 public:
  explicit AnyScales(const PackedCodes& w) : reader_(w) {}
  bool has_bias() const { return reader_.has_bias(); }
  inline __attribute__((always_inline)) void open(const uint8_t* block) { block_ = block; }

  /// Of the next N groups, the first being number `group` of the block.
  template <int N>
  inline __attribute__((always_inline)) void read(int64_t group, GroupScales (&to)[N]) const {
#pragma GCC unroll 2
    for (int i = 0; i < N; ++i) to[i] = reader_.read(block_, group + i);
  }

 private:
  const ScaleReader reader_;
  const uint8_t* block_ = nullptr;
};

/// Half precision or bfloat16, where blocks are single groups.
template <ScaleType kType>
class PlainScales {
 public:
  explicit PlainScales(const PackedCodes& w) : has_bias_(w.has_bias()) {}
  bool has_bias() const { return has_bias_; }

  inline __attribute__((always_inline)) GroupScales read(const uint8_t* at) const {
    return {one(at), has_bias_ ? one(at + 2 * kStripRows) : Ymm::all(0)};
  }

 private:
  static inline __attribute__((always_inline)) __m256 one(const uint8_t* at) {
    return kType == ScaleType::kF16 ? Ymm::f16(at) : Ymm::bf16(at);
  }

  const bool has_bias_;
};

class PowerScales {
 public:
  explicit PowerScales(const PackedCodes& w) : factor_(Ymm::all(w.scale_factor)) {}
  static bool has_bias() { return false; }

  inline __attribute__((always_inline)) GroupScales read(const uint8_t* at) const {
    return {Ymm::times(factor_, Ymm::e8m0(at)), Ymm::all(0)};
  }

 private:
  const __m256 factor_;
};

/// Two groups of E4M3 scales: as halves they are 2^8 times too small.
class SmallFloatScales {
 public:
  explicit SmallFloatScales(const PackedCodes& w)
      : scales_(w.scales_at()), factor_(Ymm::all(256 * w.scale_factor)) {}
  static bool has_bias() { return false; }
  inline __attribute__((always_inline)) void open(const uint8_t* block) { block_ = block; }

  template <int N>
  inline __attribute__((always_inline)) void read(int64_t /*group*/, GroupScales (&to)[N]) const {
    static_assert(N == 2);
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block_ + scales_));
    const __m256i high = _mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 8);
    const __m256i halves = _mm256_and_si256(_mm256_srai_epi16(high, 1), _mm256_set1_epi16(-0x4080));
    to[0] = {Ymm::times(factor_, _mm256_cvtph_ps(_mm256_castsi256_si128(halves))), Ymm::all(0)};
    to[1] = {Ymm::times(factor_, _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))), Ymm::all(0)};
  }

 private:
  const int64_t scales_;
  const __m256 factor_;
  const uint8_t* block_ = nullptr;
};

/// Small integers times halves that are read once a block. The loop over a block reads scales of N groups
/// where it has come to.
template <bool kBiased>
class NestedScales {
 public:
  explicit NestedScales(const PackedCodes& w)
      : code_bytes_(w.code_bytes()), scales_(w.scales_at()), biases_(w.biases_at() - w.scales_at()) {}
  static constexpr bool has_bias() { return kBiased; }

  inline __attribute__((always_inline)) void open(const uint8_t* block) {
    at_ = block + scales_;
    scale_ = Ymm::f16(block + code_bytes_);
    if (kBiased) bias_ = Ymm::f16(block + code_bytes_ + 2 * kStripRows);
  }

  template <int N>
  inline __attribute__((always_inline)) void read(int64_t /*group*/, GroupScales (&to)[N]) {
#pragma GCC unroll 2
    for (int i = 0; i < N; ++i) {
      to[i].scale = Ymm::times(scale_, Ymm::int8(at_ + i * kStripRows));
      if (kBiased) to[i].bias = Ymm::times(bias_, Ymm::int8(at_ + biases_ + i * kStripRows));
    }
    at_ += N * kStripRows;
  }

 private:
  const int64_t code_bytes_, scales_, biases_;
  const uint8_t* at_ = nullptr;
  __m256 scale_ = _mm256_setzero_ps(), bias_ = _mm256_setzero_ps();
};

/// As NestedScales, of two groups whose scales and biases share bytes.
class PairedScales {
 public:
  explicit PairedScales(const PackedCodes& w) : code_bytes_(w.code_bytes()), scales_(w.scales_at()) {}
  static constexpr bool has_bias() { return true; }

  inline __attribute__((always_inline)) void open(const uint8_t* block) {
    at_ = block + scales_;
    scale_ = Ymm::f16(block + code_bytes_);
    bias_ = Ymm::f16(block + code_bytes_ + 2 * kStripRows);
  }

  template <int N>
  inline __attribute__((always_inline)) void read(int64_t /*group*/, GroupScales (&to)[N]) {
    static_assert(N == 2);
    const __m256i mask = _mm256_set1_epi32(15);
#pragma GCC unroll 2
    for (int i = 0; i < N; ++i) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at_ + i * kStripRows));
      const __m256i wide = _mm256_cvtepu8_epi32(bytes);
      to[i] = {Ymm::times(scale_, _mm256_cvtepi32_ps(_mm256_and_si256(wide, mask))),
               Ymm::times(bias_, _mm256_cvtepi32_ps(_mm256_srli_epi32(wide, 4)))};
    }
    at_ += N * kStripRows;
  }

 private:
  const int64_t code_bytes_, scales_;
  const uint8_t* at_ = nullptr;
  __m256 scale_ = _mm256_setzero_ps(), bias_ = _mm256_setzero_ps();
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
static inline __attribute__((always_inline)) void sum_far(const CodeShape<kHalf>& shape,
                                                          const uint8_t* (&at)[2], const int8_t*& q,
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

/// What one row has beside its codes: for the next group a scale and a sum.
struct RowGroups {
  const float *scales, *sums;
  const int32_t* code_sums;
  __m256i offset;  // 16 bits in 32

  RowGroups(const QuantRows& x, int64_t m, int64_t groups, int32_t code_offset)
      : scales(x.scales + m * groups),
        sums(x.sums + m * groups),
        code_sums(x.code_sums + m * groups),
        offset(_mm256_set1_epi32(code_offset & 0xffff)) {}

  /// RowTile::take of two strips and group `i` of the next ones. Sums of codes fit 16 bits.
  template <bool kHasBias>
  inline __attribute__((always_inline)) void take(int i, const GroupScales& first, const GroupScales& second,
                                                  __m256i (&sum)[2][1], __m256 (&acc)[2][1]) const {
    if constexpr (!kHasBias) {
      const __m256i all = _mm256_madd_epi16(_mm256_set1_epi32(code_sums[i]), offset);
      sum[0][0] = _mm256_add_epi32(sum[0][0], all);
      sum[1][0] = _mm256_add_epi32(sum[1][0], all);
    }
    const __m256 a = _mm256_set1_ps(scales[i]);
    acc[0][0] = _mm256_fmadd_ps(_mm256_mul_ps(first.scale, a), _mm256_cvtepi32_ps(sum[0][0]), acc[0][0]);
    acc[1][0] = _mm256_fmadd_ps(_mm256_mul_ps(second.scale, a), _mm256_cvtepi32_ps(sum[1][0]), acc[1][0]);
    if constexpr (kHasBias) {
      const __m256 b = _mm256_set1_ps(sums[i]);
      acc[0][0] = _mm256_fmadd_ps(first.bias, b, acc[0][0]);
      acc[1][0] = _mm256_fmadd_ps(second.bias, b, acc[1][0]);
    }
  }

  template <bool kHasBias>
  inline __attribute__((always_inline)) void next(int n) {
    scales += n;
    if constexpr (kHasBias)
      sums += n;
    else
      code_sums += n;
  }
};

/// Row first_m of x against two strips whose scales are nested. Not inlined: registers are for its loop
/// alone.
template <class C, class Scales, bool kHalf>
static __attribute__((noinline)) void one_row_nested(const PackedCodes& w, const CodeShape<kHalf>& shape,
                                                     const QuantRows& x, const StripPair& pair,
                                                     int64_t first_m, const LinearOut& out) {
  static_assert(!C::kSigned);
  constexpr int kGroups = kHalf ? 2 : 1;
  constexpr bool kHasBias = Scales::has_bias();
  RowGroups row(x, first_m, shape.groups, shape.offset);
  const int64_t scales_ahead = shape.ahead + shape.scales_at,
                scale_bytes = shape.block_bytes - shape.scales_at;
  Scales first(w), second(w);
  __m256 acc[2][1] = {{_mm256_setzero_ps()}, {_mm256_setzero_ps()}};
  const int8_t* q = x.codes + first_m * x.cols;
  for (int64_t b = 0; b < shape.blocks; ++b) {
    const uint8_t* at[2] = {pair.at[0] + b * shape.block_bytes, pair.at[1] + b * shape.block_bytes};
    prefetch_lines(at[0] + scales_ahead, scale_bytes);
    prefetch_lines(at[1] + scales_ahead, scale_bytes);
    first.open(at[0]);
    second.open(at[1]);
    for (int64_t group = 0; group < shape.block_groups; group += kGroups) {
      __m256i sum[kGroups][2][1];
      sum_far<C, kHalf>(shape, at, q, sum);
      GroupScales of[2][kGroups];
      first.template read<kGroups>(group, of[0]);
      second.template read<kGroups>(group, of[1]);
#pragma GCC unroll 2
      for (int i = 0; i < kGroups; ++i) row.template take<kHasBias>(i, of[0][i], of[1][i], sum[i], acc);
      row.template next<kHasBias>(kGroups);
    }
  }
#pragma GCC unroll 2
  for (int s = 0; s < 2; ++s) store_rows(out, first_m, pair.row[s], shape.rows, acc[s][0]);
}

/// The same with scales of any other type.
template <class C, class Scales, bool kHalf>
static __attribute__((noinline)) void one_row(const PackedCodes& w, const CodeShape<kHalf>& shape,
                                              const QuantRows& x, const StripPair& pair, int64_t first_m,
                                              const LinearOut& out) {
  const RowTile<1> row(x, first_m, shape.groups, shape.offset);
  const int64_t block_bytes = shape.block_bytes, code_bytes = shape.scales_at, ahead = shape.ahead;
  constexpr int kGroups = kHalf ? 2 : 1;
  Scales scales[2] = {Scales(w), Scales(w)};
  __m256 acc[2][1] = {{_mm256_setzero_ps()}, {_mm256_setzero_ps()}};
  const int8_t* q = row.q[0];
  int64_t g = 0;
  for (int64_t b = 0; b < shape.blocks; ++b) {
    const uint8_t* at[2];
#pragma GCC unroll 2
    for (int s = 0; s < 2; ++s) {
      at[s] = pair.at[s] + b * block_bytes;
      prefetch_lines(at[s] + ahead + code_bytes, block_bytes - code_bytes);
      scales[s].open(at[s]);
    }
    for (int64_t group = 0; group < shape.block_groups; group += kGroups, g += kGroups) {
      __m256i sum[kGroups][2][1];
      sum_far<C, kHalf>(shape, at, q, sum);
      GroupScales of[2][kGroups];
      scales[0].template read<kGroups>(group, of[0]);
      scales[1].template read<kGroups>(group, of[1]);
#pragma GCC unroll 2
      for (int i = 0; i < kGroups; ++i)
        row.take(g + i, {of[0][i], of[1][i]}, scales[0].has_bias(), sum[i], acc);
    }
  }
#pragma GCC unroll 2
  for (int s = 0; s < 2; ++s) store_rows(out, first_m, pair.row[s], shape.rows, acc[s][0]);
}

/// The same where a block is one group: its scales lie behind its codes, before the next.
template <class C, class Scales, bool kHalf>
static __attribute__((noinline)) void one_row_flat(const PackedCodes& w, const CodeShape<kHalf>& shape,
                                                   const QuantRows& x, const StripPair& pair, int64_t first_m,
                                                   const LinearOut& out) {
  const RowTile<1> row(x, first_m, shape.groups, shape.offset);
  const Scales scales(w);
  const uint8_t* at[2] = {pair.at[0], pair.at[1]};
  const int8_t* q = row.q[0];
  __m256 acc[2][1] = {{_mm256_setzero_ps()}, {_mm256_setzero_ps()}};
  for (int64_t g = 0; g < shape.groups; ++g) {
    __m256i sum[1][2][1];
    sum_far<C, kHalf>(shape, at, q, sum);
    prefetch_lines(at[0] + shape.ahead, 1);
    prefetch_lines(at[1] + shape.ahead, 1);
    row.take(g, {scales.read(at[0]), scales.read(at[1])}, scales.has_bias(), sum[0], acc);
    at[0] += shape.scale_step;
    at[1] += shape.scale_step;
  }
#pragma GCC unroll 2
  for (int s = 0; s < 2; ++s) store_rows(out, first_m, pair.row[s], shape.rows, acc[s][0]);
}

/// Row first_m of x against two strips, by the loop for the scales of w.
template <class C, bool kHalf>
static void one_row_by_scales(const PackedCodes& w, const CodeShape<kHalf>& shape, const QuantRows& x,
                              const StripPair& pair, int64_t m, const LinearOut& out) {
  const ScaleType type = w.scale_type;
  if constexpr (!C::kFloat && !C::kSigned && kHalf == C::kSixteens) {
    // Those with groups of 16 have a zero point, two bits aside.
    constexpr bool kBiased = !kHalf || C::kRaised;
    if (type == ScaleType::kNested && w.has_bias() == kBiased)
      return one_row_nested<C, NestedScales<kBiased>, kHalf>(w, shape, x, pair, m, out);
  }
  if constexpr (kHalf && C::kRaised)
    if (type == ScaleType::kPaired && w.has_bias())
      return one_row_nested<C, PairedScales, kHalf>(w, shape, x, pair, m, out);
  if constexpr (!C::kFloat && !kHalf) {
    if (type == ScaleType::kF16)
      return one_row_flat<C, PlainScales<ScaleType::kF16>, kHalf>(w, shape, x, pair, m, out);
    if (type == ScaleType::kBF16)
      return one_row_flat<C, PlainScales<ScaleType::kBF16>, kHalf>(w, shape, x, pair, m, out);
  }
  if constexpr (C::kFloat && !kHalf)
    if (type == ScaleType::kE8M0) return one_row_flat<C, PowerScales, kHalf>(w, shape, x, pair, m, out);
  if constexpr (C::kFloat && kHalf)
    if (type == ScaleType::kE4M3) return one_row<C, SmallFloatScales, kHalf>(w, shape, x, pair, m, out);
  one_row<C, AnyScales, kHalf>(w, shape, x, pair, m, out);
}

/// Two strips at a time from the two halves of the range: the hardware follows two long streams better than
/// two adjacent short ones. An odd strip is paired with itself; rows past the end are not stored.
template <class C, bool kHalf>
static void strips_of(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out) {
  const CodeShape<kHalf> shape(w);
  const int64_t half = (strips.last - strips.first + 1) / 2, bytes = shape.strip_bytes;
  for (int64_t i = strips.first; i < strips.first + half; ++i) {
    const bool paired = i + half < strips.last;
    const int64_t other = paired ? i + half : i;
    const StripPair pair = {{shape.codes + i * bytes, shape.codes + other * bytes},
                            {i * kStripRows, paired ? other * kStripRows : w.strips() * kStripRows}};
    int64_t m = 0;
    for (; m + 3 <= x.m; m += 3) strips_tile<C, kHalf, 3>(shape, x, pair, m, out);
    if (x.m - m == 2) strips_tile<C, kHalf, 2>(shape, x, pair, m, out);
    if (x.m - m == 1) one_row_by_scales<C, kHalf>(w, shape, x, pair, m, out);
  }
}

template <class C>
static void multiply_strips(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out) {
  if constexpr (C::kSixteens)
    if (w.group < kChunk) return strips_of<C, true>(w, x, strips, out);
  strips_of<C, false>(w, x, strips, out);
}

}  // namespace penstock::exec::cpu
