// Quantising, norms, activations and the other row-wise kernels.
#include "exec/cpu/kernels_neon.h"
#include "exec/cpu/simd_neon.h"

namespace penstock::exec::cpu {

namespace {

/// Eight elements, and the last few of a row.
struct Whole {
  static Lanes load(const float* at) { return cpu::load(at); }
  static void store(float* at, Lanes value) { cpu::store(at, value); }
  static Lanes keep(Lanes value, float /*otherwise*/) { return value; }
};

struct Part {
  int64_t n;

  Lanes load(const float* at) const { return load_part(at, n); }
  void store(float* at, Lanes value) const { store_part(at, value, n); }
  Lanes keep(Lanes value, float otherwise) const {
    float kept[8];
    cpu::store(kept, value);
    for (int64_t i = n; i < 8; ++i) kept[i] = otherwise;
    return cpu::load(kept);
  }
};

/// Calls step(i, lanes) for each 8 of n elements.
template <class Step>
inline __attribute__((always_inline)) void by_eight(int64_t n, Step step) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) step(i, Whole{});
  if (i < n) step(i, Part{n - i});
}

/// Rounded to a code; what is no number of -127..127 becomes -127.
inline int32x4_t quantize_four(const float* x, float32x4_t inverse) {
  const float32x4_t rounded = vrndnq_f32(vmulq_f32(vld1q_f32(x), inverse));
  const uint32x4_t in_range = vcaleq_f32(rounded, vdupq_n_f32(127.0f));
  return vbslq_s32(in_range, vcvtq_s32_f32(rounded), vdupq_n_s32(-127));
}

}  // namespace

void quantize_row_neon(const float* x, const QuantRows& out) {
  const uint32x4_t positive = vdupq_n_u32(0x7fffffff);
  const int64_t groups = out.cols / out.group;
  for (int64_t g = 0; g < groups; ++g) {
    const float* from = x + g * out.group;
    uint32x4_t top = vdupq_n_u32(0);  // as integers, so that a NaN is the largest and spoils the row's result
    for (int c = 0; c < out.group; c += 4)
      top = vmaxq_u32(top, vandq_u32(vreinterpretq_u32_f32(vld1q_f32(from + c)), positive));
    const float largest = vgetq_lane_f32(vreinterpretq_f32_u32(vdupq_n_u32(vmaxvq_u32(top))), 0);
    const float scale = largest * (1.0f / 127.0f);
    const float32x4_t inverse = vdupq_n_f32(scale > 0 ? 127.0f / largest : 0.0f);
    int32x4_t total = vdupq_n_s32(0);
    for (int c = 0; c < out.group; c += 8) {
      const int32x4_t lo = quantize_four(from + c, inverse), hi = quantize_four(from + c + 4, inverse);
      total = vaddq_s32(total, vaddq_s32(lo, hi));
      vst1_s8(out.codes + g * out.group + c, vmovn_s16(vcombine_s16(vmovn_s32(lo), vmovn_s32(hi))));
    }
    const int32_t sum = vaddvq_s32(total);
    out.scales[g] = scale;
    out.sums[g] = scale * static_cast<float>(sum);
    out.code_sums[g] = sum;
  }
}

void rms_norm_neon(const float* x, const float* weight, int64_t n, float eps, float* out) {
  Lanes sum[4] = {splat(0), splat(0), splat(0), splat(0)};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const Lanes v = load(x + i + 8 * j);
      sum[j] = multiply_add(v, v, sum[j]);
    }
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    if (i >= n) break;
    const Lanes v = load_part(x + i, n - i < 8 ? n - i : 8);
    sum[j] = multiply_add(v, v, sum[j]);
    i += 8;
  }
  const Lanes all = add(add(sum[0], sum[1]), add(sum[2], sum[3]));
  const float mean = fold(all) / static_cast<float>(n) + eps;
  const Lanes inverse = splat(1.0f / vget_lane_f32(vsqrt_f32(vdup_n_f32(mean)), 0));
  by_eight(n, [&](int64_t at, auto lanes) {
    lanes.store(out + at, multiply(multiply(lanes.load(x + at), inverse), lanes.load(weight + at)));
  });
}

void activate_neon(Gate function, const float* gate, const float* up, int64_t n, float* out) {
  if (function == Gate::kGelu) return activate_scalar(function, gate, up, n, out);
  by_eight(n, [&](int64_t i, auto lanes) {
    const Lanes x = lanes.load(gate + i);
    Lanes u;
    if (function == Gate::kGeluTanh) {
      u = multiply_add(multiply(x, x), multiply(x, splat(0.0356774081f)), multiply(x, splat(0.797884561f)));
      u = multiply(u, splat(-2.0f * kLog2E));
    } else {
      u = multiply(x, splat(-kLog2E));
    }
    const Lanes y = divide(x, add(splat(1.0f), exp2_lanes(u)));
    lanes.store(out + i, multiply(y, lanes.load(up + i)));
  });
}

void add_neon(const float* x, int64_t n, float* y) {
  by_eight(n, [&](int64_t i, auto lanes) { lanes.store(y + i, add(lanes.load(y + i), lanes.load(x + i))); });
}

void rotate_neon(float* x, const float* cos, const float* sin, int64_t half) {
  by_eight(half, [&](int64_t i, auto lanes) {
    const Lanes a = lanes.load(x + i), b = lanes.load(x + half + i);
    const Lanes c = lanes.load(cos + i), s = lanes.load(sin + i);
    lanes.store(x + i, multiply_add(a, c, negate(multiply(b, s))));
    lanes.store(x + half + i, multiply_add(b, c, multiply(a, s)));
  });
}

void to_f16_neon(const float* x, int64_t n, uint16_t* out) {
  const float32x4_t high = vdupq_n_f32(65504.0f), low = vdupq_n_f32(-65504.0f);
  const auto round = [&](Lanes v) {
    const float16x4_t lo = vcvt_f16_f32(vmaxq_f32(low, vminq_f32(high, v.lo)));
    return vreinterpretq_u16_f16(vcvt_high_f16_f32(lo, vmaxq_f32(low, vminq_f32(high, v.hi))));
  };
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) vst1q_u16(out + i, round(load(x + i)));
  if (i == n) return;
  uint16_t rest[8];
  vst1q_u16(rest, round(load_part(x + i, n - i)));
  __builtin_memcpy(out + i, rest, static_cast<size_t>(n - i) * sizeof(uint16_t));
}

void from_f16_neon(const uint16_t* x, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) store(out + i, widen_f16(vld1q_u16(x + i)));
  if (i == n) return;
  uint16_t rest[8] = {};
  __builtin_memcpy(rest, x + i, static_cast<size_t>(n - i) * sizeof(uint16_t));
  store_part(out + i, widen_f16(vld1q_u16(rest)), n - i);
}

void softcap_neon(float* x, int64_t n, float cap) {
  const Lanes inverse = splat(2.0f * kLog2E / cap);
  by_eight(n, [&](int64_t i, auto lanes) {
    const Lanes e = exp2_lanes(multiply(lanes.load(x + i), inverse));
    const Lanes tanh = add(splat(1.0f), negate(divide(splat(2.0f), add(splat(1.0f), e))));
    lanes.store(x + i, multiply(splat(cap), tanh));
  });
}

}  // namespace penstock::exec::cpu
