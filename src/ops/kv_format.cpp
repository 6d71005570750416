#include "ops/kv_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>

#include "base/error.h"
#include "tensor/dtype.h"

namespace penstock::ops {

namespace {

struct Entry {
  const char* name;
  int32_t key_bits, value_bits;
};

constexpr Entry kEntries[] = {{"auto", 0, 0}, {"q8", 8, 8}, {"q4", 4, 4}, {"k8v4", 8, 4}};

const Entry& entry(KvFormat format) {
  return kEntries[static_cast<size_t>(format)];
}

/// To the nearest integer, ties to even, for what is far below 2^22.
float nearest(float x) {
  constexpr float kShift = 12582912.0f;
  return (x + kShift) - kShift;
}

/// The number of largest magnitude, the positive one of two; NaN where there is one.
float extreme(std::span<const float> x) {
  uint32_t above = 0, below = 0;  // bits of magnitudes, where a NaN is larger than numbers
  for (const float value : x) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7fffffff;
    above = std::max(above, bits == magnitude ? magnitude : 0);
    below = std::max(below, bits == magnitude ? 0 : magnitude);
  }
  return above >= below ? std::bit_cast<float>(above) : -std::bit_cast<float>(below);
}

}  // namespace

const char* name(KvFormat format) {
  return entry(format).name;
}

KvFormat kv_format_named(std::string_view name) {
  for (size_t i = 0; i < std::size(kEntries); ++i)
    if (name == kEntries[i].name) return static_cast<KvFormat>(i);
  throw base::Error(base::Code::kInvalidRequest,
                    "[ops.kv_format] expected auto, q8, q4 or k8v4; got " + std::string(name));
}

int32_t key_bits(KvFormat format) {
  return entry(format).key_bits;
}

int32_t value_bits(KvFormat format) {
  return entry(format).value_bits;
}

int32_t kv_group(int32_t bits) {
  return bits == 0 ? 0 : 32;
}

float quantize_kv(int32_t bits, std::span<const float> x, int8_t* codes) {
  const float most = extreme(x);
  const float scale = bits == 8 ? std::abs(most) * (1.0f / 127.0f) : most * -0.125f;
  const float inverse = std::abs(scale) > 0 ? (bits == 8 ? 127.0f / std::abs(most) : -8.0f / most) : 0.0f;
  const float low = bits == 8 ? -127.0f : -8.0f, high = bits == 8 ? 127.0f : 7.0f;
  for (size_t i = 0; i < x.size(); ++i) {
    const float code = nearest(x[i] * inverse);
    codes[i] = static_cast<int8_t>(code > high ? high : code >= low ? code : low);
  }
  return scale;
}

void round_kv_reference(int32_t bits, std::span<float> x) {
  if (bits == 0) return;
  const auto group = static_cast<size_t>(kv_group(bits));
  for (size_t first = 0; first < x.size(); first += group) {
    const std::span<float> part = x.subspan(first, std::min(group, x.size() - first));
    std::array<int8_t, 64> codes;
    const float exact = quantize_kv(bits, part, codes.data());
    const float scale = tensor::f16_to_f32(tensor::f32_to_f16(std::clamp(exact, -65504.0f, 65504.0f)));
    for (size_t i = 0; i < part.size(); ++i) part[i] = static_cast<float>(codes[i]) * scale;
  }
}

}  // namespace penstock::ops
