// Which kernel multiplies how many rows of one class of tiles. Included by one source file for each kind.
#pragma once

#include "exec/cuda/linear_group.h"

namespace penstock::exec::cuda {

/// `warps`: of a block, those that copy among them.
template <int CT>
void launch_linear(void (*kernel)(LinearArguments), LinearArguments arguments, int32_t warps,
                   cudaStream_t stream) {
  const TileShape& shape = arguments.shape;
  arguments.row_blocks = (shape.tiles + shape.block_tiles - 1) / shape.block_tiles;
  arguments.units = arguments.row_blocks * shape.slices;
  arguments.stages = stages_of(shape, CT);
  arguments.stage_bytes = stage_bytes_of(shape, CT);
  const int32_t bytes = arguments.stages * arguments.stage_bytes + 1024;
  const LaunchShape where{static_cast<unsigned>(arguments.units < 132 ? arguments.units : 132),
                          static_cast<unsigned>(warps * 32),
                          static_cast<size_t>(bytes > kMinLinearShared ? bytes : kMinLinearShared)};
  launch(kernel, where, stream, arguments);
}

template <TileKind K, int G>
struct LinearFamily {
  static void run(const LinearArguments& arguments, int32_t tiles, cudaStream_t stream) {
    const int32_t block = arguments.shape.block_tiles;
    if (tiles == 0) return launch_linear<0>(linear_tiles<K, G, 0, 1>, arguments, block + 1, stream);
    if (tiles == 1) return launch_linear<1>(linear_tiles<K, G, 1, 1>, arguments, block + 1, stream);
    if (tiles == 2) return launch_linear<2>(linear_tiles<K, G, 2, 1>, arguments, block + 1, stream);
    if (has_warpgroups()) {
      if (tiles == 4)
        return launch_linear<4>(block == 12 ? linear_groups<K, G, 4, 12> : linear_groups<K, G, 4, 16>,
                                arguments, block + 4, stream);
      return launch_linear<8>(block == 12 ? linear_groups<K, G, 8, 12> : linear_groups<K, G, 8, 16>,
                              arguments, block + 4, stream);
    }
    if (tiles == 4) return launch_linear<4>(linear_tiles<K, G, 4, 2>, arguments, block / 2 + 1, stream);
    launch_linear<8>(linear_tiles<K, G, 8, 2>, arguments, block / 2 + 1, stream);
  }

  static void prepare() {
    for (const auto kernel :
         {linear_tiles<K, G, 0, 1>, linear_tiles<K, G, 1, 1>, linear_tiles<K, G, 2, 1>,
          linear_tiles<K, G, 4, 2>, linear_tiles<K, G, 8, 2>, linear_groups<K, G, 4, 12>,
          linear_groups<K, G, 4, 16>, linear_groups<K, G, 8, 12>, linear_groups<K, G, 8, 16>})
      check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxLinearShared),
            "shared memory");
  }
};

}  // namespace penstock::exec::cuda
