// Kernels that treat every number of a row alike, the same for every width of vectors on x86. All of it is
// private to the file that includes it: code built for one processor must not be merged with code built for
// another.
//
// What vectors V bring: Floats, all(value), times, plus, over, fma, exp2, size (without the sign), positive
// (0 for the others), and by_lanes(n, step), which calls step(i, lanes) for the vectors of n numbers;
// lanes.load(at) and lanes.store(at, value) leave alone what lies behind the last number.
#pragma once

#include "exec/cpu/kernels.h"

namespace penstock::exec::cpu {

namespace {

/// gelu_scalar in lanes.
template <class V>
inline __attribute__((always_inline)) typename V::Floats gelu_lanes(typename V::Floats x) {
  const auto size = V::size(x);
  const auto t = V::over(V::all(1.0f), V::fma(size, V::all(kErfSlope), V::all(1.0f)));
  auto p = V::all(kErf[4]);
  p = V::fma(p, t, V::all(kErf[3]));
  p = V::fma(p, t, V::all(kErf[2]));
  p = V::fma(p, t, V::all(kErf[1]));
  p = V::fma(p, t, V::all(kErf[0]));
  const auto tail = V::times(V::times(p, t), V::exp2(V::times(V::times(x, x), V::all(-0.5f * kLog2E))));
  return V::fma(V::times(size, V::all(-1.0f)), tail, V::positive(x));
}

template <class V>
void activate_lanes(Gate function, const float* gate, const float* up, int64_t n, float* out) {
  if (function == Gate::kGelu) {
    V::by_lanes(n, [&](int64_t i, auto lanes) {
      lanes.store(out + i, V::times(gelu_lanes<V>(lanes.load(gate + i)), lanes.load(up + i)));
    });
    return;
  }
  V::by_lanes(n, [&](int64_t i, auto lanes) {
    const auto x = lanes.load(gate + i);
    typename V::Floats u;
    if (function == Gate::kGeluTanh) {
      u = V::fma(V::times(x, x), V::times(x, V::all(0.0356774081f)), V::times(x, V::all(0.797884561f)));
      u = V::times(u, V::all(-2.0f * kLog2E));
    } else {
      u = V::times(x, V::all(-kLog2E));
    }
    const auto y = V::over(x, V::plus(V::all(1.0f), V::exp2(u)));
    lanes.store(out + i, V::times(y, lanes.load(up + i)));
  });
}

template <class V>
void add_lanes(const float* x, int64_t n, float* y) {
  V::by_lanes(
      n, [&](int64_t i, auto lanes) { lanes.store(y + i, V::plus(lanes.load(y + i), lanes.load(x + i))); });
}

/// out = x * inverse * weight.
template <class V>
void scale_lanes(const float* x, float inverse, const float* weight, int64_t n, float* out) {
  V::by_lanes(n, [&](int64_t i, auto lanes) {
    lanes.store(out + i, V::times(V::times(lanes.load(x + i), V::all(inverse)), lanes.load(weight + i)));
  });
}

}  // namespace

}  // namespace penstock::exec::cpu
