// Quantising, norms, activations and the other row-wise kernels, plain C++.
#include <bit>
#include <cmath>
#include <limits>

#include "exec/cpu/kernels_scalar.h"

namespace penstock::exec::cpu {

float fold8(const float* l) {
  return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
}

float half_to_float(uint16_t bits) {
  if ((bits & 0x7c00) != 0) return tensor::f16_to_f32(bits);
  const float value = static_cast<float>(bits & 0x3ff) * 0x1p-24f;
  return (bits & 0x8000) != 0 ? -value : value;
}

float exp2_scalar(float x) {
  constexpr float kLow = -125.0f, kHigh = 126.0f;
  x = kLow > x ? kLow : x;
  x = kHigh < x ? kHigh : x;
  const float n = std::nearbyint(x), f = x - n;
  float p = kExp2[5];
  p = std::fma(p, f, kExp2[4]);
  p = std::fma(p, f, kExp2[3]);
  p = std::fma(p, f, kExp2[2]);
  p = std::fma(p, f, kExp2[1]);
  p = std::fma(p, f, kExp2[0]);
  const int32_t exponent = n == n ? static_cast<int32_t>(n) : 0;
  return std::bit_cast<float>(std::bit_cast<int32_t>(p) + exponent * (1 << 23));
}

void quantize_row_scalar(const float* x, const QuantRows& out) {
  for (int64_t g = 0; g < out.cols / out.group; ++g) {
    const float* from = x + g * out.group;
    uint32_t top = 0;  // as integers, so that a NaN is the largest and spoils the row's result
    for (int c = 0; c < out.group; ++c) {
      const uint32_t bits = std::bit_cast<uint32_t>(from[c]) & 0x7fffffff;
      top = bits > top ? bits : top;
    }
    const float largest = std::bit_cast<float>(top);
    const float scale = largest * (1.0f / 127.0f);
    const float inverse = scale > 0 ? 127.0f / largest : 0.0f;
    int32_t sum = 0;
    for (int c = 0; c < out.group; ++c) {
      const float rounded = std::nearbyint(from[c] * inverse);
      const int32_t code = rounded >= -127.0f && rounded <= 127.0f ? static_cast<int32_t>(rounded) : -127;
      out.codes[g * out.group + c] = static_cast<int8_t>(code);
      sum += code;
    }
    out.scales[g] = scale;
    out.sums[g] = scale * static_cast<float>(sum);
    out.code_sums[g] = sum;
  }
}

void rms_norm_scalar(const float* x, const float* weight, int64_t n, float eps, float* out) {
  float lanes[32] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i % 32] = std::fma(x[i], x[i], lanes[i % 32]);
  for (int i = 0; i < 8; ++i) lanes[i] = (lanes[i] + lanes[i + 8]) + (lanes[i + 16] + lanes[i + 24]);
  const float inverse = 1.0f / std::sqrt(fold8(lanes) / static_cast<float>(n) + eps);
  for (int64_t i = 0; i < n; ++i) out[i] = (x[i] * inverse) * weight[i];
}

void layer_norm_scalar(const float* x, const float* weight, const float* bias, int64_t n, float eps,
                       float* out) {
  float lanes[32] = {};
  const auto folded = [&] {
    for (int i = 0; i < 8; ++i) lanes[i] = (lanes[i] + lanes[i + 8]) + (lanes[i + 16] + lanes[i + 24]);
    return fold8(lanes) / static_cast<float>(n);
  };
  for (int64_t i = 0; i < n; ++i) lanes[i % 32] += x[i];
  const float mean = folded();
  for (float& lane : lanes) lane = 0;
  for (int64_t i = 0; i < n; ++i) lanes[i % 32] = std::fma(x[i] - mean, x[i] - mean, lanes[i % 32]);
  const float inverse = 1.0f / std::sqrt(folded() + eps);
  for (int64_t i = 0; i < n; ++i) out[i] = std::fma((x[i] - mean) * inverse, weight[i], bias[i]);
}

namespace {

/// 0.5 x (1 + erf(x / sqrt(2))): what is left of erf at 1 is a polynomial of t times exp(-x^2 / 2). See kErf.
float gelu_scalar(float x) {
  const float size = std::fabs(x);
  const float t = 1.0f / std::fma(size, kErfSlope, 1.0f);
  float p = kErf[4];
  p = std::fma(p, t, kErf[3]);
  p = std::fma(p, t, kErf[2]);
  p = std::fma(p, t, kErf[1]);
  p = std::fma(p, t, kErf[0]);
  const float tail = (p * t) * exp2_scalar((x * x) * (-0.5f * kLog2E));  // half of 1 - erf
  return std::fma(-size, tail, x > 0.0f ? x : 0.0f);
}

float gate_scalar(Gate function, float x) {
  switch (function) {
    case Gate::kSilu:
      return x / (1.0f + exp2_scalar(x * -kLog2E));
    case Gate::kGeluTanh: {  // 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u))
      const float u = std::fma(x * x, x * 0.0356774081f, x * 0.797884561f);
      return x / (1.0f + exp2_scalar(u * (-2.0f * kLog2E)));
    }
    case Gate::kGelu:
      return gelu_scalar(x);
  }
  return 0;
}

}  // namespace

void activate_scalar(Gate function, const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = gate_scalar(function, gate[i]) * up[i];
}

void add_scalar(const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = y[i] + x[i];
}

void rotate_scalar(float* x, const float* cos, const float* sin, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[i], b = x[i + half];
    x[i] = std::fma(a, cos[i], -(b * sin[i]));
    x[i + half] = std::fma(b, cos[i], a * sin[i]);
  }
}

void to_f16_scalar(const float* x, int64_t n, uint16_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    float value = x[i];
    value = value > 65504.0f ? 65504.0f : value;
    value = value < -65504.0f ? -65504.0f : value;
    out[i] = tensor::f32_to_f16(value);
  }
}

void from_f16_scalar(const uint16_t* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = half_to_float(x[i]);
}

void softcap_scalar(float* x, int64_t n, float cap) {
  const float inverse = 2.0f * kLog2E / cap;  // tanh(y) = 1 - 2 / (1 + exp(2y))
  for (int64_t i = 0; i < n; ++i) x[i] = cap * (1.0f - 2.0f / (1.0f + exp2_scalar(x[i] * inverse)));
}

}  // namespace penstock::exec::cpu
