// Codes of up to 4 bits.
#include "exec/cuda/linear_kinds.h"

namespace penstock::exec::cuda {

RunTiles find_four(TileClass of) {
  if (of == TileClass{TileKind::kFour, 64}) return LinearFamily<TileKind::kFour, 64>::run;
  return of == TileClass{TileKind::kFour, 32} ? LinearFamily<TileKind::kFour, 32>::run : nullptr;
}

void prepare_four() {
  LinearFamily<TileKind::kFour, 64>::prepare();
  LinearFamily<TileKind::kFour, 32>::prepare();
}

}  // namespace penstock::exec::cuda
