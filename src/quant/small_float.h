// The 4- and 8-bit floating point numbers of the mx and nv formats. Plain functions, any thread.
#pragma once

#include <bit>
#include <cstdint>

namespace penstock::quant {

/// E2M1: sign, two bits of exponent, one of mantissa.
inline constexpr float kFp4[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                   -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

/// E4M3 without infinities: bias 7, subnormals in steps of 2^-9, 0x7f and 0xff are NaN.
inline float e4m3_to_f32(uint8_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80) << 24;
  const uint32_t rest = bits & 0x7f;
  if (rest == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000);
  // As exponent and mantissa of a float the number is 2^120 times too small, subnormals included.
  const float value = std::bit_cast<float>(rest << 20) * 0x1p120f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

/// E8M0: 2^(bits - 127); as in MLX, 0 is 2^-127 and 255 is infinity.
inline float e8m0_to_f32(uint8_t bits) {
  return std::bit_cast<float>(bits == 0 ? 0x00400000u : static_cast<uint32_t>(bits) << 23);
}

}  // namespace penstock::quant
