// Launches that may begin before the kernel ahead of them ends: the kernel itself waits (device_code.h). For
// files that nvcc compiles.
#pragma once

#include <type_traits>

#include "exec/cuda/device.h"

namespace penstock::exec::cuda {

/// Where and how a kernel runs.
struct LaunchShape {
  dim3 grid, block;
  size_t shared_bytes = 0;
};

/// Launches behind everything on the stream; the kernel itself waits (device_code.h: await_previous).
template <class... Args>
void launch(void (*kernel)(Args...), LaunchShape shape, cudaStream_t stream,
            std::type_identity_t<Args>... args) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, args...), "kernel launch");
}

}  // namespace penstock::exec::cuda
