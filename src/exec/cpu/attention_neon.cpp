// Attention over one tile of keys: lanes are keys for the scores and head dimensions for the values.
#include "exec/cpu/attention_tiles.h"
#include "exec/cpu/kernels_neon.h"
#include "exec/cpu/simd_neon.h"

namespace penstock::exec::cpu {

namespace {

constexpr int kVectors = kTileKeys / 8;

float32x4_t load4(const float* at) {
  return vld1q_f32(at);
}

float32x4_t load4(const uint16_t* at) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(at)));
}

/// Four bytes, in both halves.
int8x8_t load_codes(const void* at) {
  uint32_t bytes;
  __builtin_memcpy(&bytes, at, sizeof(bytes));
  return vreinterpret_s8_u32(vdup_n_u32(bytes));
}

float32x4_t widen(int8x8_t codes) {
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(codes))));
}

float32x4_t load4(const int8_t* at) {
  return widen(load_codes(at));
}

float32x4_t half_codes(const Nibbles* at, bool high) {
  const int8x8_t both = load_codes(at);
  return widen(vshr_n_s8(high ? both : vshl_n_s8(both, 4), 4));
}

/// Four keys of dimension `u` of those that lie together.
template <class T>
float32x4_t key4(const T* at, int) {
  return load4(at);
}
float32x4_t key4(const Nibbles* at, int u) {
  return half_codes(at, u == 1);
}

/// Vector v, of four, of a row of values.
template <class T>
float32x4_t value4(const T* row, int64_t v) {
  return load4(row + 4 * v);
}
float32x4_t value4(const Nibbles* row, int64_t v) {
  return half_codes(row + v / 8 * 16 + v % 4 * 4, v % 8 >= 4);
}

/// Scores of N queries for P panels of 16 keys from panel `first`.
template <int N, int P, class T>
void score_panels(const Stored<T>& stored, const AttendQueries& queries, float scale, int i, int first) {
  constexpr int kDims = kTogether<T>;
  const int64_t dim = stored.dim, panel = dim / kDims * kPanelKeys, stride = stored.stride;
  const T* keys = stored.at + first * panel;
  const float* q = queries.q + i * stride;
  float* scores = queries.scores + i * kTileKeys + first * kPanelKeys;
  for (int64_t d = 0, g = 0; d < dim; ++g) {
    const int64_t end = d + stored.group < dim ? d + stored.group : dim;
    float32x4_t sum[N][P][4];
#pragma GCC unroll 6
    for (int n = 0; n < N; ++n)
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p)
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) sum[n][p][v] = vdupq_n_f32(0);
    for (; d < end; d += kDims, keys += kPanelKeys) {
#pragma GCC unroll 2
      for (int u = 0; u < kDims; ++u) {
#pragma GCC unroll 4
        for (int p = 0; p < P; ++p)
#pragma GCC unroll 4
          for (int v = 0; v < 4; ++v) {
            const float32x4_t key = key4(keys + p * panel + 4 * v, u);
#pragma GCC unroll 6
            for (int n = 0; n < N; ++n) sum[n][p][v] = vfmaq_n_f32(sum[n][p][v], key, q[n * stride + d + u]);
          }
      }
    }
#pragma GCC unroll 6
    for (int n = 0; n < N; ++n)
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p)
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) {
          const int at = p * kPanelKeys + 4 * v;
          float32x4_t score = sum[n][p][v];
          if (stored.scales != nullptr) {
            const float32x4_t scales = vld1q_f32(stored.scales + g * kTileKeys + first * kPanelKeys + at);
            score = g == 0 ? vmulq_f32(score, scales)
                           : vfmaq_f32(vld1q_f32(scores + n * kTileKeys + at), score, scales);
          }
          vst1q_f32(scores + n * kTileKeys + at, end == dim ? vmulq_n_f32(score, scale) : score);
        }
  }
}

/// Lanes whose key is in [first, last), for keys `key` .. `key` + 3.
uint32x4_t seen_keys(int32_t key, int32_t first, int32_t last) {
  const int32_t steps[4] = {0, 1, 2, 3};
  const int32x4_t keys = vaddq_s32(vdupq_n_s32(key), vld1q_s32(steps));
  return vandq_u32(vcgeq_s32(keys, vdupq_n_s32(first)), vcltq_s32(keys, vdupq_n_s32(last)));
}

float32x4_t kept_lanes(uint32x4_t mask, float32x4_t value) {
  return vreinterpretq_f32_u32(vandq_u32(mask, vreinterpretq_u32_f32(value)));
}

/// Turns the scores of query i into weights and rescales what it has summed so far.
void weigh(const AttendQueries& queries, int i, int64_t stride) {
  float* scores = queries.scores + i * kTileKeys;
  const int32_t first = queries.first[i], last = queries.last[i];
  const float32x4_t none = vdupq_n_f32(-__builtin_inff());
  Lanes score[kVectors], top = {none, none};
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    score[v] = load(scores + 8 * v);
    top = larger({vbslq_f32(seen_keys(8 * v, first, last), score[v].lo, none),
                  vbslq_f32(seen_keys(8 * v + 4, first, last), score[v].hi, none)},
                 top);
  }
  const float highest = fold_max(top), before = queries.max[i];
  const float now = before > highest ? before : highest;
  const Lanes base = splat(-now);
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const Lanes weight = exp2_lanes(add(score[v], base));
    score[v] = {kept_lanes(seen_keys(8 * v, first, last), weight.lo),
                kept_lanes(seen_keys(8 * v + 4, first, last), weight.hi)};
    store(scores + 8 * v, score[v]);
  }
  const Lanes low = add(add(score[0], score[1]), add(score[2], score[3]));
  const Lanes high = add(add(score[4], score[5]), add(score[6], score[7]));
  const float total = fold(add(low, high));
  queries.max[i] = now;
  if (before == now) {
    queries.sum[i] += total;
    return;
  }
  const float kept = exp2_one(before - now);
  queries.sum[i] = __builtin_fmaf(queries.sum[i], kept, total);
  float* acc = queries.acc + i * stride;
  for (int64_t d = 0; d < stride; d += 8) store(acc + d, multiply(load(acc + d), splat(kept)));
}

/// acc += weights times values for keys [first, last), N queries and V chunks of 8 of the head at a time.
template <int N, int V, class T>
void add_values(const Stored<T>& stored, const Adding& adding, Range keys, int64_t d) {
  const int64_t stride = stored.stride, pitch = row_pitch<T>(stride);
  float* acc = adding.acc + d;
  float32x4_t sum[N][2 * V];
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 16
    for (int v = 0; v < 2 * V; ++v) sum[n][v] = vld1q_f32(acc + n * stride + 4 * v);
  for (int64_t key = keys.first; key < keys.last; ++key) {
#pragma GCC unroll 16
    for (int v = 0; v < 2 * V; ++v) {
      const float32x4_t value = value4(stored.at + key * pitch, d / 4 + v);
#pragma GCC unroll 6
      for (int n = 0; n < N; ++n)
        sum[n][v] = vfmaq_n_f32(sum[n][v], value, adding.weights[n * kTileKeys + key]);
    }
  }
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 16
    for (int v = 0; v < 2 * V; ++v) vst1q_f32(acc + n * stride + 4 * v, sum[n][v]);
}

struct Neon {
  static constexpr int kQueries = 6;
  static constexpr bool kCodes = true;

  template <int N, class T>
  static void score(const Stored<T>& keys, const AttendQueries& queries, float scale, int i, int panels) {
    constexpr int P = N >= 4 ? 1 : N >= 2 ? 2 : 4;
    for (int p = 0; p < panels; p += P) score_panels<N, P>(keys, queries, scale, i, p);
  }

  static void weigh(const AttendQueries& queries, int i, int64_t stride) { cpu::weigh(queries, i, stride); }

  template <int N, class T>
  static void add(const Stored<T>& values, const Adding& adding, Range keys, Range dims) {
    constexpr int V = N >= 4 ? 2 : N >= 2 ? 4 : 8;
    int64_t d = dims.first;
    for (; d + 8 * V <= dims.last; d += 8 * V) add_values<N, V>(values, adding, keys, d);
    if constexpr (V == 8)
      for (; d + 32 <= dims.last; d += 32) add_values<N, 4>(values, adding, keys, d);
    for (; d < dims.last; d += 8) add_values<N, 1>(values, adding, keys, d);
  }

  static void times(const float* a, const float* b, float* out) {
    for (int v = 0; v < kVectors; ++v) store(out + 8 * v, multiply(load(a + 8 * v), load(b + 8 * v)));
  }

  static void softcap(float* x, int64_t n, float cap) { softcap_neon(x, n, cap); }
};

}  // namespace

void attend_tile_neon(const AttendTile& tile, const AttendQueries& queries) {
  attend_tile<Neon>(tile, queries);
}

void from_codes8_neon(const int8_t* codes, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) vst1q_f32(out + i, load4(codes + i));
  for (; i < n; ++i) out[i] = codes[i];
}

void from_codes4_neon(const uint8_t* codes, int64_t n, float* out) {
  const auto* from = reinterpret_cast<const Nibbles*>(codes);
  for (int64_t v = 0; v < n / 4; ++v) vst1q_f32(out + 4 * v, value4(from, v));
}

void merge_partial_neon(const Partial& next, const Partial& into, int64_t n) {
  const float top = *into.max > *next.max ? *into.max : *next.max;
  const float keep = exp2_one(*into.max - top), take = exp2_one(*next.max - top);
  *into.max = top;
  *into.sum = __builtin_fmaf(*next.sum, take, *into.sum * keep);
  for (int64_t d = 0; d < n; d += 8) {
    const Lanes kept = multiply(load(into.acc + d), splat(keep));
    store(into.acc + d, multiply_add(load(next.acc + d), splat(take), kept));
  }
}

void finish_partial_neon(const Partial& from, int64_t n, float* out) {
  const Lanes inverse = splat(1.0f / *from.sum);
  int64_t d = 0;
  for (; d + 8 <= n; d += 8) store(out + d, multiply(load(from.acc + d), inverse));
  if (d < n) store_part(out + d, multiply(load(from.acc + d), inverse), n - d);
}

}  // namespace penstock::exec::cpu
