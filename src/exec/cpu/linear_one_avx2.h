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

/// Half precision or bfloat16.
template <ScaleType kType>
class PlainScales {
 public:
  explicit PlainScales(const PackedCodes& w)
      : has_bias_(w.has_bias()), scales_(w.scales_at()), biases_(w.biases_at()) {}
  bool has_bias() const { return has_bias_; }
  inline __attribute__((always_inline)) void open(const uint8_t* block) { block_ = block; }

  template <int N>
  inline __attribute__((always_inline)) void read(int64_t /*group*/, GroupScales (&to)[N]) const {
    static_assert(N == 1);
    to[0] = {one(block_ + scales_), has_bias_ ? one(block_ + biases_) : Ymm::all(0)};
  }

 private:
  static inline __attribute__((always_inline)) __m256 one(const uint8_t* at) {
    return kType == ScaleType::kF16 ? Ymm::f16(at) : Ymm::bf16(at);
  }

  const bool has_bias_;
  const int64_t scales_, biases_;
  const uint8_t* block_ = nullptr;
};

class PowerScales {
 public:
  explicit PowerScales(const PackedCodes& w) : scales_(w.scales_at()), factor_(Ymm::all(w.scale_factor)) {}
  static bool has_bias() { return false; }
  inline __attribute__((always_inline)) void open(const uint8_t* block) { block_ = block; }

  template <int N>
  inline __attribute__((always_inline)) void read(int64_t /*group*/, GroupScales (&to)[N]) const {
    static_assert(N == 1);
    to[0] = {Ymm::times(factor_, Ymm::e8m0(block_ + scales_)), Ymm::all(0)};
  }

 private:
  const int64_t scales_;
  const __m256 factor_;
  const uint8_t* block_ = nullptr;
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

/// Small integers times halves that are read once a block.
class NestedScales {
 public:
  explicit NestedScales(const PackedCodes& w)
      : has_bias_(w.has_bias()),
        code_bytes_(w.code_bytes()),
        scales_(w.scales_at()),
        biases_(w.biases_at()) {}
  bool has_bias() const { return has_bias_; }

  inline __attribute__((always_inline)) void open(const uint8_t* block) {
    block_ = block;
    scale_ = Ymm::f16(block + code_bytes_);
    if (has_bias_) bias_ = Ymm::f16(block + code_bytes_ + 2 * kStripRows);
  }

  template <int N>
  inline __attribute__((always_inline)) void read(int64_t group, GroupScales (&to)[N]) const {
    const uint8_t* at = block_ + group * kStripRows;
#pragma GCC unroll 2
    for (int i = 0; i < N; ++i) {
      to[i].scale = Ymm::times(scale_, Ymm::int8(at + scales_ + i * kStripRows));
      to[i].bias = has_bias_ ? Ymm::times(bias_, Ymm::int8(at + biases_ + i * kStripRows)) : Ymm::all(0);
    }
  }

 private:
  const bool has_bias_;
  const int64_t code_bytes_, scales_, biases_;
  const uint8_t* block_ = nullptr;
  __m256 scale_ = _mm256_setzero_ps(), bias_ = _mm256_setzero_ps();
};

/// As NestedScales, of two groups whose scales and biases share bytes.
class PairedScales {
 public:
  explicit PairedScales(const PackedCodes& w) : code_bytes_(w.code_bytes()), scales_(w.scales_at()) {}
  static bool has_bias() { return true; }

  inline __attribute__((always_inline)) void open(const uint8_t* block) {
    block_ = block;
    scale_ = Ymm::f16(block + code_bytes_);
    bias_ = Ymm::f16(block + code_bytes_ + 2 * kStripRows);
  }

  template <int N>
  inline __attribute__((always_inline)) void read(int64_t group, GroupScales (&to)[N]) const {
    static_assert(N == 2);
    const void* at = block_ + scales_ + group * kStripRows;
    const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(at)), mask = _mm_set1_epi8(15);
    const __m128i scales = _mm_and_si128(bytes, mask);
    const __m128i biases = _mm_and_si128(_mm_srli_epi16(bytes, 4), mask);
    to[0] = {Ymm::times(scale_, floats(scales)), Ymm::times(bias_, floats(biases))};
    to[1] = {Ymm::times(scale_, floats(_mm_srli_si128(scales, 8))),
             Ymm::times(bias_, floats(_mm_srli_si128(biases, 8)))};
  }

 private:
  static inline __attribute__((always_inline)) __m256 floats(__m128i bytes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
  }

  const int64_t code_bytes_, scales_;
  const uint8_t* block_ = nullptr;
  __m256 scale_ = _mm256_setzero_ps(), bias_ = _mm256_setzero_ps();
};

}  // namespace

/// Where two strips are.
struct FarPlace {
  const uint8_t* at[2];
  int64_t group;  // within the block
  int64_t g;      // within the row
};

/// acc of both strips takes one group, or a pair of groups of 16 columns that share a chunk.
template <class C, class Scales, bool kHalf>
static inline __attribute__((always_inline)) void take_far(const RowTile<1>& row, const Scales (&scales)[2],
                                                           const CodeShape<kHalf>& shape, FarPlace& place,
                                                           __m256 (&acc)[2][1]) {
  auto& [at, group, g] = place;
  const int64_t ahead = shape.ahead, chunks = shape.chunks;
  constexpr int kGroups = kHalf ? 2 : 1;
  __m256i part[2][1], sum[kGroups][2][1];
  const auto chunk = [&]() __attribute__((always_inline)) {
    prefetch_lines(at[0] + ahead, C::kBytes);
    prefetch_lines(at[1] + ahead, C::kBytes);
    return FarChunk<C>{C(at[0]), C(at[1])};
  };
  const auto next = [&]() __attribute__((always_inline)) {
    at[0] += C::kBytes;
    at[1] += C::kBytes;
  };
  if constexpr (kHalf) {
    const FarChunk<C> both = chunk();
    add_steps<C, true, 0, 4>(both, row.q, g * 16, part, sum[0]);
    add_steps<C, true, 4, 8>(both, row.q, g * 16, part, sum[1]);
    next();
  } else {
    add_steps<C, true, 0, 8>(chunk(), row.q, g * chunks * kChunk, part, sum[0]);
    next();
    for (int64_t c = 1; c < chunks; ++c, next())
      add_steps<C, false, 0, 8>(chunk(), row.q, (g * chunks + c) * kChunk, part, sum[0]);
  }
  GroupScales of[2][kGroups];
  scales[0].template read<kGroups>(group, of[0]);
  scales[1].template read<kGroups>(group, of[1]);
#pragma GCC unroll 2
  for (int i = 0; i < kGroups; ++i) row.take(g + i, {of[0][i], of[1][i]}, scales[0].has_bias(), sum[i], acc);
  group += kGroups;
  g += kGroups;
}

/// Row first_m of x against two strips. Not inlined: registers are for its loop alone.
template <class C, class Scales, bool kHalf>
static __attribute__((noinline)) void one_row(const PackedCodes& w, const CodeShape<kHalf>& shape,
                                              const QuantRows& x, const StripPair& pair, int64_t first_m,
                                              const LinearOut& out) {
  const RowTile<1> row(x, first_m, shape.groups, shape.offset);
  const int64_t block_bytes = shape.block_bytes, code_bytes = shape.scales_at, ahead = shape.ahead;
  Scales scales[2] = {Scales(w), Scales(w)};
  __m256 acc[2][1] = {{_mm256_setzero_ps()}, {_mm256_setzero_ps()}};
  FarPlace place = {{}, 0, 0};
  for (int64_t b = 0; b < shape.blocks; ++b) {
    place.group = 0;
#pragma GCC unroll 2
    for (int s = 0; s < 2; ++s) {
      place.at[s] = pair.at[s] + b * block_bytes;
      prefetch_lines(place.at[s] + ahead + code_bytes, block_bytes - code_bytes);
      scales[s].open(place.at[s]);
    }
    while (place.group < shape.block_groups) take_far<C, Scales, kHalf>(row, scales, shape, place, acc);
  }
#pragma GCC unroll 2
  for (int s = 0; s < 2; ++s) store_rows(out, first_m, pair.row[s], shape.rows, acc[s][0]);
}

/// call.operator()<Scales>() for the scales of w.
template <class C, bool kHalf, class Call>
static inline void with_scales(const PackedCodes& w, const Call& call) {
  const ScaleType type = w.scale_type;
  if constexpr (!C::kFloat && !C::kSigned && kHalf == C::kSixteens)
    if (type == ScaleType::kNested) return call.template operator()<NestedScales>();
  if constexpr (kHalf && C::kBytes == 2 * kChunk)
    if (type == ScaleType::kPaired) return call.template operator()<PairedScales>();
  if constexpr (!C::kFloat && !kHalf) {
    if (type == ScaleType::kF16) return call.template operator()<PlainScales<ScaleType::kF16>>();
    if (type == ScaleType::kBF16) return call.template operator()<PlainScales<ScaleType::kBF16>>();
  }
  if constexpr (C::kFloat && !kHalf)
    if (type == ScaleType::kE8M0) return call.template operator()<PowerScales>();
  if constexpr (C::kFloat && kHalf)
    if (type == ScaleType::kE4M3) return call.template operator()<SmallFloatScales>();
  call.template operator()<AnyScales>();
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
    if (x.m - m == 1)
      with_scales<C, kHalf>(w, [&]<class Scales>() { one_row<C, Scales, kHalf>(w, shape, x, pair, m, out); });
  }
}

template <class C>
static void multiply_strips(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out) {
  if constexpr (C::kSixteens)
    if (w.group < kChunk) return strips_of<C, true>(w, x, strips, out);
  strips_of<C, false>(w, x, strips, out);
}

}  // namespace penstock::exec::cpu
