// Natural logarithm and exponential from basic IEEE operations only: every machine and executor that follows
// these steps without fused multiply-add gets the same bits, which no two math libraries promise. Any thread.
#pragma once

#include <bit>
#include <cstdint>

namespace penstock::ops {

/// log(x) of a positive normal x, error below 1e-15 relative to max(1, |log x|), and relative near x = 1.
/// Source: log m = 2 atanh((m - 1) / (m + 1)), m in [sqrt(1/2), sqrt(2)], twelve terms.
inline double natural_log(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  auto exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffULL) | 0x3ff0000000000000ULL);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  double sum = 1.0 / 23;
  for (int n = 21; n >= 1; n -= 2) sum = sum * z + 1.0 / n;
  return static_cast<double>(exponent) * 0.69314718055994530942 + 2 * s * sum;
}

/// exp(x) of x <= 0, relative error below 2e-7; x below -87 gives exp(-87).
/// Source: Cody-Waite reduction and the degree-six polynomial of the Cephes library.
inline float exp_nonpositive(float x) {
  x = x < -87.0f ? -87.0f : x;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float shifted = x * 1.44269504088896341f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = (p * r * r + r) + 1.0f;
  const int32_t power = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound);
  return y * std::bit_cast<float>((power + 127) << 23);
}

}  // namespace penstock::ops
