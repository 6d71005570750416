// The kinds of tiles that multiply() knows, one source file each, so that they compile side by side.
#pragma once

#include "exec/cuda/linear_family.h"

namespace penstock::exec::cuda {

using RunTiles = void (*)(const LinearArguments& arguments, int32_t column_tiles, cudaStream_t stream);

/// Null where the file has no such class.
RunTiles find_four(TileClass of);
RunTiles find_sixteen(TileClass of);
RunTiles find_eight(TileClass of);
RunTiles find_half(TileClass of);

void prepare_four();
void prepare_sixteen();
void prepare_eight();
void prepare_half();

}  // namespace penstock::exec::cuda
