// Codes of up to 4 bits in groups of 16, and codes of 5 to 8 bits in groups of 16.
#include "exec/cuda/linear_kinds.h"

namespace penstock::exec::cuda {

RunTiles find_sixteen(TileClass of) {
  if (of == TileClass{TileKind::kFour, 16}) return LinearFamily<TileKind::kFour, 16>::run;
  return of == TileClass{TileKind::kEight, 16} ? LinearFamily<TileKind::kEight, 16>::run : nullptr;
}

void prepare_sixteen() {
  LinearFamily<TileKind::kFour, 16>::prepare();
  LinearFamily<TileKind::kEight, 16>::prepare();
}

}  // namespace penstock::exec::cuda
