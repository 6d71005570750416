#include "exec/cpu/pack_codes.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <span>
#include <vector>

#include "exec/cpu/processor.h"
#include "quant/format.h"
#include "quant/small_float.h"
#include "tensor/dtype.h"

namespace penstock::exec::cpu {

namespace {

template <class T>
std::span<T> lane_of(std::vector<T>& values, int64_t lane) {
  const size_t n = values.size() / kStripRows;
  return std::span(values).subspan(static_cast<size_t>(lane) * n, n);
}

/// The rows of one strip as the format gives them; rows past the end are zeros.
struct StripSource {
  std::vector<uint8_t> codes;                    // [8, cols]
  std::vector<float> scales, biases;             // [8, groups], unless scales are nested
  std::vector<int8_t> inner;                     // [8, groups], where they are
  std::vector<uint8_t> minimums;                 // [8, groups]
  std::vector<uint16_t> halves, minimum_halves;  // [8, blocks]

  explicit StripSource(const PackedCodes& to)
      : codes(static_cast<size_t>(kStripRows * to.cols)),
        scales(static_cast<size_t>(kStripRows * to.groups())),
        biases(scales.size()) {
    if (!to.nested()) return;
    inner.resize(scales.size());
    minimums.resize(scales.size());
    halves.resize(static_cast<size_t>(kStripRows * to.blocks_of_strip()));
    minimum_halves.resize(halves.size());
  }

  void read(const quant::Matrix& matrix, const PackedCodes& to, int64_t strip) {
    for (int64_t lane = 0; lane < kStripRows; ++lane) {
      const int64_t row = strip * kStripRows + lane;
      if (row >= to.rows)
        clear(lane);
      else if (to.nested())
        matrix.format->nested_codes(matrix, row,
                                    {lane_of(codes, lane), lane_of(inner, lane), lane_of(minimums, lane),
                                     lane_of(halves, lane), lane_of(minimum_halves, lane)});
      else
        matrix.format->codes(matrix, row,
                             {lane_of(codes, lane), lane_of(scales, lane), lane_of(biases, lane)});
    }
  }

 private:
  void clear(int64_t lane) {
    std::ranges::fill(lane_of(codes, lane), uint8_t{0});
    std::ranges::fill(lane_of(scales, lane), 0.0f);
    std::ranges::fill(lane_of(biases, lane), 0.0f);
    std::ranges::fill(lane_of(inner, lane), int8_t{0});
    std::ranges::fill(lane_of(minimums, lane), uint8_t{0});
    std::ranges::fill(lane_of(halves, lane), uint16_t{0});
    std::ranges::fill(lane_of(minimum_halves, lane), uint16_t{0});
  }
};

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

/// Writes one scale or bias; false when the type does not hold it exactly.
bool write_scale(ScaleType type, float factor, float value, uint8_t* at) {
  if (type == ScaleType::kF32) {
    std::memcpy(at, &value, sizeof(value));
    return true;
  }
  if (type == ScaleType::kE8M0) {
    *at = static_cast<uint8_t>(std::bit_cast<uint32_t>(value / factor) >> 23);
    return same_bits(factor * std::bit_cast<float>(uint32_t{*at} << 23), value);
  }
  if (type == ScaleType::kE4M3) {
    uint8_t low = 0, high = 0x7e;  // numbers grow with their bits
    while (low < high) {
      const auto middle = static_cast<uint8_t>((low + high) / 2);
      if (factor * quant::e4m3_to_f32(middle) < value)
        low = middle + 1;
      else
        high = middle;
    }
    *at = low;
    return same_bits(factor * quant::e4m3_to_f32(low), value);
  }
  const bool f16 = type == ScaleType::kF16;
  const uint16_t bits = f16 ? tensor::f32_to_f16(value) : tensor::f32_to_bf16(value);
  std::memcpy(at, &bits, sizeof(bits));
  return same_bits(f16 ? tensor::f16_to_f32(bits) : tensor::bf16_to_f32(bits), value);
}

bool fits(ScaleType type, float factor, std::span<const float> values) {
  uint8_t ignored[4];
  return std::ranges::all_of(values, [&](float v) { return write_scale(type, factor, v, ignored); });
}

/// True when every bias is what the zero point makes of its scale.
bool fits_zero(int32_t zero, const StripSource& strip) {
  for (size_t i = 0; i < strip.scales.size(); ++i)
    if (!(strip.biases[i] == static_cast<float>(-zero) * strip.scales[i])) return false;
  return true;
}

float factor_of(ScaleType type, const quant::Matrix& matrix) {
  return type == ScaleType::kE4M3 ? 0.5f * matrix.global_scale : type == ScaleType::kE8M0 ? 0.5f : 1.0f;
}

bool holds(ScaleType type, const quant::Matrix& matrix, bool centred, const StripSource& strip) {
  const bool small = type == ScaleType::kE8M0 || type == ScaleType::kE4M3;
  if (!fits(type, factor_of(type, matrix), strip.scales)) return false;
  return centred || (!small && fits(type, 1, strip.biases));
}

/// The narrowest way to hold the scales of some strips exactly. pack_codes() checks all of them.
void guess_scales(const quant::Matrix& matrix, PackedCodes& to) {
  const bool fp4 = to.layout == CodeLayout::kFp4;
  const int32_t zero = fp4 ? 12 : 1 << (matrix.format->code_bits(matrix) - 1);
  std::vector<StripSource> samples(3, StripSource(to));
  samples[0].read(matrix, to, 0);
  samples[1].read(matrix, to, to.strips() / 2);
  samples[2].read(matrix, to, to.strips() - 1);
  const bool centred = std::ranges::all_of(samples, [&](const auto& s) { return fits_zero(zero, s); });
  for (const ScaleType type :
       {ScaleType::kE8M0, ScaleType::kE4M3, ScaleType::kF16, ScaleType::kBF16, ScaleType::kF32}) {
    if (!fp4 && (type == ScaleType::kE8M0 || type == ScaleType::kE4M3)) continue;
    to.scale_type = type;
    if (std::ranges::all_of(samples, [&](const auto& s) { return holds(type, matrix, centred, s); })) break;
  }
  to.scale_factor = factor_of(to.scale_type, matrix);
  if (centred) to.zero = zero;
}

/// False when a scale or bias does not fit the guess.
bool write_scales(const StripSource& from, const PackedCodes& to, int64_t g, int64_t group, uint8_t* block) {
  bool fit = true;
  const auto groups = static_cast<size_t>(to.groups());
  for (int64_t lane = 0; lane < kStripRows; ++lane) {
    const size_t i = static_cast<size_t>(lane) * groups + static_cast<size_t>(g);
    const int64_t at = group * to.group_scale_bytes() + lane * to.scale_bytes();
    fit = write_scale(to.scale_type, to.scale_factor, from.scales[i], block + to.scales_at() + at) && fit;
    if (to.has_bias())
      fit = write_scale(to.scale_type, 1, from.biases[i], block + to.biases_at() + at) && fit;
  }
  return fit;
}

void write_paired(const StripSource& from, const PackedCodes& to, int64_t b, uint8_t* block) {
  const auto blocks = static_cast<size_t>(to.blocks_of_strip()), n = static_cast<size_t>(to.block_groups());
  for (size_t lane = 0; lane < kStripRows; ++lane) {
    const size_t half = lane * blocks + static_cast<size_t>(b);
    const auto minus = static_cast<uint16_t>(from.minimum_halves[half] ^ 0x8000);
    std::memcpy(block + to.code_bytes() + 2 * lane, &from.halves[half], 2);
    std::memcpy(block + to.code_bytes() + 2 * (kStripRows + lane), &minus, 2);
    for (size_t g = 0; g < n; ++g)
      block[to.scales_at() + static_cast<int64_t>(g * kStripRows + lane)] =
          static_cast<uint8_t>(from.inner[half * n + g] | from.minimums[half * n + g] << 4);
  }
}

void write_nested(const StripSource& from, const PackedCodes& to, int64_t b, uint8_t* block) {
  const auto blocks = static_cast<size_t>(to.blocks_of_strip()), n = static_cast<size_t>(to.block_groups());
  const bool biased = to.has_bias();
  uint8_t* const halves = block + to.code_bytes();
  uint8_t* const scales = block + to.scales_at();
  uint8_t* const biases = block + to.biases_at();
  for (size_t lane = 0; lane < kStripRows; ++lane) {
    const size_t half = lane * blocks + static_cast<size_t>(b);
    std::memcpy(halves + 2 * lane, &from.halves[half], 2);
    if (biased) std::memcpy(halves + 2 * (kStripRows + lane), &from.minimum_halves[half], 2);
    for (size_t g = 0; g < n; ++g) {
      scales[g * kStripRows + lane] = static_cast<uint8_t>(from.inner[half * n + g]);
      if (biased) biases[g * kStripRows + lane] = static_cast<uint8_t>(-from.minimums[half * n + g]);
    }
  }
}

// Planes of one lane: `steps` holds the codes of eight steps, one byte a column. Words go to at[32 v].

void put_word(uint8_t* at, size_t v, uint32_t word) {
  std::memcpy(at + 32 * v, &word, sizeof(word));
}

void write_four_plane(const uint32_t (&steps)[8], uint8_t* at) {
  for (size_t v = 0; v < 4; ++v)
    put_word(at, v, (steps[2 * v] & 0x0f0f0f0f) | (steps[2 * v + 1] & 0x0f0f0f0f) << 4);
}

void write_two_plane(const uint32_t (&steps)[8], uint8_t* at) {
  for (size_t v = 0; v < 2; ++v)
    put_word(at, v, steps[2 * v] | steps[2 * v + 4] << 2 | steps[2 * v + 1] << 4 | steps[2 * v + 5] << 6);
}

/// The bits `mask` of every byte of a step, moved up.
uint32_t moved(uint32_t step, uint32_t mask, int by) {
  return (step & mask * 0x01010101) << by;
}

void write_three(const uint32_t (&s)[8], uint8_t* at) {
  put_word(at, 0, s[0] | s[1] << 3 | moved(s[6], 3, 6));
  put_word(at, 1, s[2] | s[3] << 3 | moved(s[7], 3, 6));
  put_word(at, 2, s[4] | s[5] << 3 | moved(s[6], 4, 4) | moved(s[7], 4, 5));
}

void write_five(const uint32_t (&s)[8], uint8_t* at) {
  put_word(at, 0, s[0] | moved(s[5], 7, 5));
  put_word(at, 1, s[1] | moved(s[5], 24, 2) | moved(s[7], 8, 4));
  put_word(at, 2, s[2] | moved(s[6], 7, 5));
  put_word(at, 3, s[3] | moved(s[6], 24, 2) | moved(s[7], 16, 3));
  put_word(at, 4, s[4] | moved(s[7], 7, 5));
}

void write_six(const uint32_t (&s)[8], uint8_t* at) {
  for (size_t v = 0; v < 6; ++v) {
    const int pair = static_cast<int>(v % 3) * 2;
    put_word(at, v, s[v] | moved(s[6 + v / 3], 3u << pair, 6 - pair));
  }
}

/// 32 columns of one lane.
void write_planes(CodeLayout layout, const uint32_t (&steps)[8], uint8_t* at) {
  switch (layout) {
    case CodeLayout::kTwo:
      return write_two_plane(steps, at);
    case CodeLayout::kThree:
      return write_three(steps, at);
    case CodeLayout::kFour:
    case CodeLayout::kFp4:
      return write_four_plane(steps, at);
    case CodeLayout::kFive:
      return write_five(steps, at);
    case CodeLayout::kSix:
      return write_six(steps, at);
    case CodeLayout::kEight:
      for (size_t v = 0; v < 8; ++v) put_word(at, v, steps[v] ^ 0x80808080);
      return;
    case CodeLayout::kFp8:
      for (size_t v = 0; v < 8; ++v) put_word(at, v, steps[v]);
      return;
  }
}

/// True when the kernels read the numbers as what they are: none is NaN, and no scale is beyond 2^80.
bool fits_fp8(const StripSource& strip) {
  return std::ranges::none_of(strip.codes, [](uint8_t code) { return (code & 0x7f) == 0x7f; }) &&
         std::ranges::all_of(strip.scales, [](float scale) { return scale <= 0x1p80f; });
}

/// The E2M1 bits of codes that are twice the number plus 12.
void to_fp4_bits(std::span<uint8_t> codes) {
  constexpr uint8_t kBits[25] = {15, 0, 0, 0, 14, 0, 13, 0, 12, 11, 10, 9, 0,
                                 1,  2, 3, 4, 0,  5, 0,  6, 0,  0,  0,  7};
  for (uint8_t& code : codes) code = kBits[code];
}

/// False when a scale or bias does not fit the guess.
bool write_strip(const StripSource& from, const PackedCodes& to, uint8_t* strip) {
  bool fit = to.layout != CodeLayout::kFp8 || fits_fp8(from);
  // The compiler must take the shape for changed by every byte that is written.
  const int64_t n_blocks = to.blocks_of_strip(), block_bytes = to.block_bytes(), block_cols = to.block_cols();
  const int64_t cols = to.cols, chunk_bytes = to.chunk_bytes();
  const CodeLayout layout = to.layout;
  const uint8_t* const codes = from.codes.data();
  for (int64_t b = 0; b < n_blocks; ++b) {
    uint8_t* block = strip + b * block_bytes;
    for (int64_t c = 0; c < block_cols; c += kChunk)
      for (int64_t lane = 0; lane < kStripRows; ++lane) {
        uint32_t steps[8];
        std::memcpy(steps, codes + lane * cols + b * block_cols + c, sizeof(steps));
        write_planes(layout, steps, block + c / kChunk * chunk_bytes + lane * 4);
      }
    if (to.nested()) {
      const auto write = to.scale_type == ScaleType::kPaired ? write_paired : write_nested;
      write(from, to, b, block);
      continue;
    }
    for (int64_t g = 0; g < to.block_groups(); ++g)
      fit = write_scales(from, to, b * to.block_groups() + g, g, block) && fit;
  }
  return fit && (to.has_bias() || to.nested() || fits_zero(to.zero, from));
}

CodeLayout layout_for(const quant::Matrix& matrix) {
  if (matrix.format->fp4_codes(matrix)) return CodeLayout::kFp4;
  for (const CodeLayout layout :
       {CodeLayout::kTwo, CodeLayout::kThree, CodeLayout::kFour, CodeLayout::kFive, CodeLayout::kSix})
    if (matrix.format->code_bits(matrix) <= code_bits(layout)) return layout;
  return CodeLayout::kEight;
}

}  // namespace

bool plan_codes(const quant::Matrix& matrix, PackedCodes& codes) {
  if (matrix.format->fp8_codes(matrix)) {
    codes = {.rows = matrix.rows,
             .cols = matrix.cols,
             .group = matrix.group_size,
             .layout = CodeLayout::kFp8,
             .scale_type = ScaleType::kE8M0,
             .zero = 0};
    return matrix.group_size == kChunk && matrix.cols % kChunk == 0;
  }
  if (!matrix.format->integer_codes(matrix)) return false;
  const int group = matrix.format->code_group(matrix);
  codes = {.rows = matrix.rows, .cols = matrix.cols, .group = group, .layout = layout_for(matrix)};
  if (matrix.format->nested_scales(matrix)) codes.scale_type = ScaleType::kNested;
  const bool known =
      (group == 16 && takes_sixteens(codes.layout)) || group == 32 || group == 64 || group == 128;
  if (!known || matrix.cols % codes.block_cols() != 0) return false;
  if (!codes.nested()) {
    guess_scales(matrix, codes);
    return true;
  }
  if (const int zero = matrix.format->zero_code(matrix); zero >= 0) codes.zero = zero;
  // Two bits and minimums: Q2_K, whose scales and minimums have four.
  if (codes.layout == CodeLayout::kTwo && codes.has_bias()) codes.scale_type = ScaleType::kPaired;
  return true;
}

bool pack_codes(const quant::Matrix& matrix, const PackedCodes& to, ThreadPool& pool, uint8_t* blocks,
                const std::function<void(int64_t first, int64_t last)>& done) {
  constexpr int64_t kBytesAtATime = 4 << 20;
  const int64_t at_a_time = std::max(kBytesAtATime / to.strip_bytes(), int64_t{4} * pool.size());
  std::atomic<bool> fit{true};
  for (int64_t first = 0; first < to.strips() && fit.load(); first += at_a_time) {
    const int64_t last = std::min(first + at_a_time, to.strips());
    pool.run([&](int32_t thread) {
      const DenormalScope scope(Denormals::kKept);
      StripSource strip(to);
      const auto n = static_cast<int32_t>(last - first);
      for (int32_t i; (i = pool.take(thread, n)) >= 0 && fit.load(std::memory_order_relaxed);) {
        strip.read(matrix, to, first + i);
        if (to.layout == CodeLayout::kFp4) to_fp4_bits(strip.codes);
        if (!write_strip(strip, to, blocks + (first + i) * to.strip_bytes())) fit.store(false);
      }
    });
    done(first * kStripRows, std::min(last * kStripRows, to.rows));
  }
  return fit.load();
}

}  // namespace penstock::exec::cpu
