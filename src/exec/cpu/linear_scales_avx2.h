// Scales of two groups and more in the order of memory, by code made for each type that files have; AnyScales
// is for the others. Private to the file that includes it.
#pragma once

#include "exec/cpu/linear_strips_avx2.h"

namespace penstock::exec::cpu {

namespace {

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

}  // namespace penstock::exec::cpu
