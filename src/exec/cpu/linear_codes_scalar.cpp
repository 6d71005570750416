// Integer codes times quantised or float32 activations, plain C++.
#include <cmath>
#include <cstring>

#include "exec/cpu/kernels_scalar.h"

namespace penstock::exec::cpu {

int32_t code_at(const PackedCodes& w, const uint8_t* block, int lane, int column) {
  if (w.width == CodeWidth::kFour) {
    const uint8_t byte = block[column / 8 * 32 + lane * 4 + column % 4];
    return column % 8 < 4 ? byte & 15 : byte >> 4;
  }
  const uint8_t byte = block[column / 4 * 32 + lane * 4 + column % 4];
  return w.is_signed() ? static_cast<int8_t>(byte) + 128 : byte;
}

float scale_at(const PackedCodes& w, const uint8_t* block, int index) {
  const uint8_t* at = block + w.code_bytes() + index * w.scale_bytes();
  if (w.scale_type == ScaleType::kF32) {
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return w.scale_type == ScaleType::kF16 ? half_to_float(bits) : tensor::bf16_to_f32(bits);
}

void store_output(const LinearOut& out, int64_t m, int64_t row, float value) {
  if (out.bias != nullptr) value += out.bias[row];
  float& at = out.out[m * out.stride + row];
  at = out.add ? at + value : value;
}

namespace {

/// One output of linear_codes: row `lane` of a strip times row m of x.
float dot_codes(const PackedCodes& w, const uint8_t* strip, int lane, const QuantRows& x, int64_t m) {
  const int64_t groups = w.groups();
  float acc = 0;
  for (int64_t g = 0; g < groups; ++g) {
    const uint8_t* block = strip + g * w.block_bytes();
    const int8_t* q = x.codes + m * x.cols + g * w.group;
    int32_t sum = 0;
    for (int c = 0; c < w.group; ++c) sum += code_at(w, block, lane, c) * q[c];
    const float scale = scale_at(w, block, lane);
    const float bias = scale_at(w, block, kStripRows + lane);
    acc = std::fma(scale * x.scales[m * groups + g], static_cast<float>(sum), acc);
    acc = std::fma(bias, x.sums[m * groups + g], acc);
  }
  return acc;
}

float dot_exact(const PackedCodes& w, const uint8_t* strip, int lane, const float* x) {
  float acc = 0;
  for (int64_t g = 0; g < w.groups(); ++g) {
    const uint8_t* block = strip + g * w.block_bytes();
    const float scale = scale_at(w, block, lane);
    const float bias = scale_at(w, block, kStripRows + lane);
    for (int c = 0; c < w.group; ++c) {
      const float value = std::fma(static_cast<float>(code_at(w, block, lane, c)), scale, bias);
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
