// Activation functions of gates. Device code.
#pragma once

#include <cuda_runtime.h>

#include "ops/operation.h"

namespace penstock::exec::cuda {

__device__ inline float activate(ops::Activation activation, float x) {
  if (activation == ops::Activation::kSilu) return x / (1.0f + expf(-x));
  if (activation == ops::Activation::kGelu) return 0.5f * x * (1.0f + erff(x * 0.70710678f));
  return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}

/// The same from the fast exponential and division: for results that become float16.
template <ops::Activation A>
__device__ inline float activate_fast(float x) {
  if constexpr (A == ops::Activation::kGelu) return activate(A, x);
  const float by = A == ops::Activation::kSilu ? x : 1.59576912f * (x + 0.044715f * x * x * x);
  return __fdividef(x, 1.0f + __expf(-by));
}

}  // namespace penstock::exec::cuda
