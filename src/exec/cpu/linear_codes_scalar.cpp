// Integer codes times quantised or float32 activations, plain C++.
#include <bit>
#include <cmath>
#include <cstring>

#include "exec/cpu/kernels_scalar.h"

namespace penstock::exec::cpu {

namespace {

/// Twice each E2M1 number plus 12.
constexpr int32_t kFp4Codes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

// The bits of column c (0..31) of row `lane` in a plane.

int32_t in_four(const uint8_t* plane, int lane, int c) {
  return plane[c / 8 * 32 + lane * 4 + c % 4] >> (c % 8 / 4 * 4) & 15;
}

int32_t in_two(const uint8_t* plane, int lane, int c) {
  return plane[c % 16 / 8 * 32 + lane * 4 + c % 4] >> (c % 8 / 4 * 4 + c / 16 * 2) & 3;
}

/// Bits [from, from + n) of vector v.
int32_t bits_of(const uint8_t* plane, int v, int lane, int c, int from, int n) {
  return plane[v * 32 + lane * 4 + c % 4] >> from & ((1 << n) - 1);
}

int32_t in_three(const uint8_t* plane, int lane, int c) {
  const int step = c / 4;
  if (step < 6) return bits_of(plane, step / 2, lane, c, step % 2 * 3, 3);
  return bits_of(plane, step - 6, lane, c, 6, 2) | bits_of(plane, 2, lane, c, step, 1) << 2;
}

int32_t in_five(const uint8_t* plane, int lane, int c) {
  const int step = c / 4;
  if (step < 5) return bits_of(plane, step, lane, c, 0, 5);
  const int low = bits_of(plane, 2 * (step - 5), lane, c, 5, 3);
  if (step < 7) return low | bits_of(plane, 2 * (step - 5) + 1, lane, c, 5, 2) << 3;
  return low | bits_of(plane, 1, lane, c, 7, 1) << 3 | bits_of(plane, 3, lane, c, 7, 1) << 4;
}

int32_t in_six(const uint8_t* plane, int lane, int c) {
  const int step = c / 4;
  if (step < 6) return bits_of(plane, step, lane, c, 0, 6);
  const int v = step == 6 ? 0 : 3;
  return bits_of(plane, v, lane, c, 6, 2) | bits_of(plane, v + 1, lane, c, 6, 2) << 2 |
         bits_of(plane, v + 2, lane, c, 6, 2) << 4;
}

int32_t in_bytes(const uint8_t* plane, int lane, int c) {
  return static_cast<int8_t>(plane[c / 4 * 32 + lane * 4 + c % 4]) + 128;
}

/// As a half the number is 2^8 times too small, subnormals included.
float e4m3_value(uint8_t bits) {
  return 256 * half_to_float(static_cast<uint16_t>((bits & 0x80) << 8 | (bits & 0x7f) << 7));
}

float stored_scale(ScaleType type, float factor, const uint8_t* at) {
  uint16_t half;
  if (type == ScaleType::kF32) {
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  if (type == ScaleType::kE8M0) return factor * std::bit_cast<float>(uint32_t{*at} << 23);
  if (type == ScaleType::kE4M3) return factor * e4m3_value(*at);
  std::memcpy(&half, at, sizeof(half));
  return type == ScaleType::kF16 ? half_to_float(half) : tensor::bf16_to_f32(half);
}

float nested_scale(const uint8_t* half_at, int32_t inner) {
  uint16_t half;
  std::memcpy(&half, half_at, sizeof(half));
  return half_to_float(half) * static_cast<float>(inner);
}

int32_t inner_scale(const PackedCodes& w, const uint8_t* at) {
  return w.scale_type == ScaleType::kPaired ? *at & 15 : static_cast<int8_t>(*at);
}

int32_t inner_bias(const PackedCodes& w, const uint8_t* at) {
  return w.scale_type == ScaleType::kPaired ? *at >> 4 : static_cast<int8_t>(*at);
}

}  // namespace

int32_t code_at(const PackedCodes& w, const uint8_t* block, int lane, int column) {
  const uint8_t* plane = block + column / kChunk * w.chunk_bytes();
  const int c = column % kChunk;
  switch (w.layout) {
    case CodeLayout::kTwo:
      return in_two(plane, lane, c);
    case CodeLayout::kThree:
      return in_three(plane, lane, c);
    case CodeLayout::kFour:
      return in_four(plane, lane, c);
    case CodeLayout::kFive:
      return in_five(plane, lane, c);
    case CodeLayout::kSix:
      return in_six(plane, lane, c);
    case CodeLayout::kEight:
      return in_bytes(plane, lane, c);
    case CodeLayout::kFp4:
      return kFp4Codes[in_four(plane, lane, c)];
    case CodeLayout::kFp8:
      break;
  }
  return 0;
}

float number_at(const PackedCodes& w, const uint8_t* block, int lane, int column) {
  const int c = column % kChunk;
  return e4m3_value(block[column / kChunk * w.chunk_bytes() + c / 4 * 32 + lane * 4 + c % 4]);
}

float scale_at(const PackedCodes& w, const uint8_t* block, int group, int lane) {
  const uint8_t* at = block + w.scales_at() + group * w.group_scale_bytes() + lane * w.scale_bytes();
  if (w.nested()) return nested_scale(block + w.code_bytes() + 2 * lane, inner_scale(w, at));
  return stored_scale(w.scale_type, w.scale_factor, at);
}

float bias_at(const PackedCodes& w, const uint8_t* block, int group, int lane) {
  const uint8_t* at = block + w.biases_at() + group * w.group_scale_bytes() + lane * w.scale_bytes();
  if (w.nested()) return nested_scale(block + w.code_bytes() + 2 * (kStripRows + lane), inner_bias(w, at));
  return stored_scale(w.scale_type, w.scale_factor, at);
}

void store_output(const LinearOut& out, int64_t m, int64_t row, float value) {
  if (out.bias != nullptr) value += out.bias[row];
  float& at = out.out[m * out.stride + row];
  at = out.add ? at + value : value;
}

namespace {

/// Where group g of a strip lies.
struct GroupPlace {
  const uint8_t* block;
  int group;   // within the block
  int column;  // its first, within the block
};

GroupPlace place_of(const PackedCodes& w, const uint8_t* strip, int64_t g) {
  const auto group = static_cast<int>(g % w.block_groups());
  return {strip + g / w.block_groups() * w.block_bytes(), group, group * w.group};
}

/// One output of linear_codes: row `lane` of a strip times row m of x.
float dot_codes(const PackedCodes& w, const uint8_t* strip, int lane, const QuantRows& x, int64_t m) {
  const int64_t groups = w.groups();
  const int32_t zero = w.has_bias() ? 0 : w.zero;
  float acc = 0;
  for (int64_t g = 0; g < groups; ++g) {
    const auto [block, group, column] = place_of(w, strip, g);
    const int8_t* q = x.codes + m * x.cols + g * w.group;
    int32_t sum = 0;
    for (int c = 0; c < w.group; ++c) sum += (code_at(w, block, lane, column + c) - zero) * q[c];
    const float scale = scale_at(w, block, group, lane);
    acc = std::fma(scale * x.scales[m * groups + g], static_cast<float>(sum), acc);
    if (w.has_bias()) acc = std::fma(bias_at(w, block, group, lane), x.sums[m * groups + g], acc);
  }
  return acc;
}

float dot_numbers(const PackedCodes& w, const uint8_t* strip, int lane, const float* x) {
  float acc = 0;
  for (int64_t g = 0; g < w.groups(); ++g) {
    const auto [block, group, column] = place_of(w, strip, g);
    const float scale = scale_at(w, block, group, lane);
    float sum = 0;
    for (int c = 0; c < w.group; ++c)
      sum = std::fma(number_at(w, block, lane, column + c), x[g * w.group + c], sum);
    acc = std::fma(sum, scale, acc);
  }
  return acc;
}

float dot_exact(const PackedCodes& w, const uint8_t* strip, int lane, const float* x) {
  if (w.layout == CodeLayout::kFp8) return dot_numbers(w, strip, lane, x);
  float acc = 0;
  for (int64_t g = 0; g < w.groups(); ++g) {
    const auto [block, group, column] = place_of(w, strip, g);
    const float scale = scale_at(w, block, group, lane);
    for (int c = 0; c < w.group; ++c) {
      const int32_t code = code_at(w, block, lane, column + c);
      const float value = w.has_bias()
                              ? std::fma(static_cast<float>(code), scale, bias_at(w, block, group, lane))
                              : static_cast<float>(code - w.zero) * scale;
      acc = std::fma(value, x[g * w.group + c], acc);
    }
  }
  return acc;
}

}  // namespace

void linear_codes_scalar(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                         uint8_t* /*scratch*/) {
  for (int64_t s = strips.first; s < strips.last; ++s)
    for (int lane = 0; lane < kStripRows && s * kStripRows + lane < w.rows; ++lane)
      for (int64_t m = 0; m < x.m; ++m)
        store_output(out, m, s * kStripRows + lane, dot_codes(w, w.blocks + s * w.strip_bytes(), lane, x, m));
}

void linear_exact_scalar(const PackedCodes& w, const FloatRows& x, Range strips, const LinearOut& out,
                         float* /*scratch*/) {
  for (int64_t s = strips.first; s < strips.last; ++s)
    for (int lane = 0; lane < kStripRows && s * kStripRows + lane < w.rows; ++lane)
      for (int64_t m = 0; m < x.m; ++m)
        store_output(out, m, s * kStripRows + lane,
                     dot_exact(w, w.blocks + s * w.strip_bytes(), lane, x.x + m * x.stride));
}

}  // namespace penstock::exec::cpu
