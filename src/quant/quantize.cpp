#include "quant/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "quant/bit_stream.h"
#include "quant/small_float.h"

namespace penstock::quant {
namespace {

using tensor::DType;
using tensor::OwnedTensor;
using tensor::View;

OwnedTensor make(const std::string& name, DType dtype, int64_t rows, int64_t cols) {
  return {name,
          dtype,
          {rows, cols},
          std::vector<std::byte>(static_cast<size_t>(rows * cols) * tensor::size_bytes(dtype))};
}

void store(OwnedTensor& out, size_t index, float value) {
  std::byte* at = out.bytes.data() + index * tensor::size_bytes(out.dtype);
  if (out.dtype == DType::kF32) {
    std::memcpy(at, &value, sizeof value);
    return;
  }
  const uint16_t half = out.dtype == DType::kF16 ? tensor::f32_to_f16(value) : tensor::f32_to_bf16(value);
  std::memcpy(at, &half, sizeof half);
}

struct AffineGroup {
  float scale;
  float bias;
};

/// The end of the range that is larger in magnitude is met exactly and zero is a code where it can be.
AffineGroup fit(std::span<const float> values, float top_code) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const bool down = std::abs(*low) > std::abs(*high);
  const float step = std::max((*high - *low) / top_code, 1e-7f);
  AffineGroup group = {down ? step : -step, 0};
  const float edge = down ? *low : *high;
  const float zero = std::rint(edge / group.scale);
  if (zero != 0) group = {edge / zero, edge};
  return group;
}

void affine_codes(std::span<const float> values, AffineGroup group, float top_code, uint8_t* codes) {
  for (size_t i = 0; i < values.size(); ++i) {
    const float code = std::rint((values[i] - group.bias) / group.scale);
    codes[i] = static_cast<uint8_t>(std::clamp(code, 0.0f, top_code));
  }
}

/// Nearest E2M1; of two as near the smaller, and never -0, as in MLX.
uint8_t fp4_of(float value) {
  constexpr float kMiddles[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  uint8_t code = 0;
  for (const float middle : kMiddles) code += std::abs(value) > middle;
  return code | (code != 0 && value < 0 ? 8 : 0);
}

/// Nearest E4M3, ties to even, saturating at 448.
uint8_t e4m3_of(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint8_t>((bits >> 24) & 0x80);
  const float magnitude = std::abs(value);
  if (!(magnitude < 464.0f)) return sign | 0x7e;
  if (magnitude < 0x1p-6f) return sign | static_cast<uint8_t>(std::rint(magnitude * 0x1p9f));
  const uint32_t rebased = (bits & 0x7fffffff) - (120u << 23);
  return sign | static_cast<uint8_t>((rebased + 0x7ffff + ((rebased >> 20) & 1)) >> 20);
}

float largest(std::span<const float> values) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  return most;
}

/// The byte of the group's scale; `top` is the largest code. Where the scale would be below 2^-127 MLX wraps
/// around; here it stays there.
uint8_t scale_of(std::span<const float> values, float top, const std::string& mode) {
  const float scale = largest(values) / top;
  if (mode == "nvfp4") return e4m3_of(scale);
  if (scale == 0) return 127;
  return static_cast<uint8_t>(std::clamp(std::ceil(std::log2(scale)), -127.0f, 127.0f) + 127);
}

void float_codes(std::span<const float> values, float scale, int bits, uint8_t* codes) {
  for (size_t i = 0; i < values.size(); ++i) {
    const float value = scale == 0 ? 0.0f : values[i] / scale;
    codes[i] = bits == 4 ? fp4_of(value) : e4m3_of(value);
  }
}

void check(const View& source, const Params& params) {
  const bool floating =
      source.dtype == DType::kF32 || source.dtype == DType::kF16 || source.dtype == DType::kBF16;
  if (floating && source.shape.size() == 2 && source.shape[1] % params.group_size == 0) return;
  throw base::Error(base::Code::kInvalidRequest,
                    "[quant.quantize] expected a floating-point matrix with columns in groups of " +
                        std::to_string(params.group_size) + "; got " +
                        std::string(tensor::name(source.dtype)) + tensor::to_string(source.shape));
}

}  // namespace

std::vector<OwnedTensor> quantize(const View& source, const Params& params, const std::string& base) {
  check(source, params);
  const bool affine = params.mode == "affine";
  const int64_t rows = source.shape[0];
  const int64_t cols = source.shape[1];
  const auto group = static_cast<size_t>(params.group_size);
  OwnedTensor weight = make(base + ".weight", DType::kU32, rows, cols * params.bits / 32);
  OwnedTensor scales =
      make(base + ".scales", affine ? source.dtype : DType::kU8, rows, cols / params.group_size);
  OwnedTensor biases =
      affine ? make(base + ".biases", source.dtype, rows, cols / params.group_size) : OwnedTensor{};
  const auto top_code = static_cast<float>((1 << params.bits) - 1);
  std::vector<float> values(group);
  std::vector<uint8_t> codes(group);
  for (size_t g = 0; g < static_cast<size_t>(rows * cols) / group; ++g) {
    tensor::read_f32(source, static_cast<int64_t>(g * group), values);
    if (affine) {
      const AffineGroup fitted = fit(values, top_code);
      affine_codes(values, fitted, top_code, codes.data());
      store(scales, g, fitted.scale);
      store(biases, g, fitted.bias);
    } else {
      const uint8_t byte = scale_of(values, params.bits == 4 ? 6.0f : 448.0f, params.mode);
      scales.bytes[g] = static_cast<std::byte>(byte);
      float_codes(values, params.mode == "nvfp4" ? e4m3_to_f32(byte) : e8m0_to_f32(byte), params.bits,
                  codes.data());
    }
    pack_bits(codes, params.bits, weight.bytes.data() + g * group * static_cast<size_t>(params.bits) / 8);
  }
  std::vector<OwnedTensor> out = {std::move(weight), std::move(scales)};
  if (affine) out.push_back(std::move(biases));
  return out;
}

}  // namespace penstock::quant
