// Dense weights in float16.
#include "exec/cuda/linear_kinds.h"

namespace penstock::exec::cuda {

RunTiles find_half(TileClass of) {
  return of.kind == TileKind::kHalf ? LinearFamily<TileKind::kHalf, 64>::run : nullptr;
}

void prepare_half() {
  LinearFamily<TileKind::kHalf, 64>::prepare();
}

}  // namespace penstock::exec::cuda
