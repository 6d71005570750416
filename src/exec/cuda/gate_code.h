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

}  // namespace penstock::exec::cuda
