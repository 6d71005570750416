// Codes of 5 to 8 bits.
#include "exec/cuda/linear_kinds.h"

namespace penstock::exec::cuda {

RunTiles find_eight(TileClass of) {
  if (of == TileClass{TileKind::kEight, 64}) return LinearFamily<TileKind::kEight, 64>::run;
  return of == TileClass{TileKind::kEight, 32} ? LinearFamily<TileKind::kEight, 32>::run : nullptr;
}

void prepare_eight() {
  LinearFamily<TileKind::kEight, 64>::prepare();
  LinearFamily<TileKind::kEight, 32>::prepare();
}

}  // namespace penstock::exec::cuda
