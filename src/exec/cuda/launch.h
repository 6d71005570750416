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
  dim3 cluster = 1;  // blocks that share their memory
};

/// Launches behind everything on the stream; the kernel itself waits (device_code.h: await_previous).
template <class... Args>
void launch(void (*kernel)(Args...), LaunchShape shape, cudaStream_t stream,
            std::type_identity_t<Args>... args) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {shape.cluster.x, shape.cluster.y, shape.cluster.z};
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = shape.cluster.x * shape.cluster.y * shape.cluster.z > 1 ? 2 : 1;
  check(cudaLaunchKernelEx(&config, kernel, args...), "kernel launch");
}

}  // namespace penstock::exec::cuda
