// Codes of four bits, integers and E2M1 numbers.
#include "exec/cpu/linear_panel_avx2.h"

namespace penstock::exec::cpu {

const LayoutAvx2& four_avx2() {
  return kLayoutAvx2<FourCodes<Ymm>>;
}

const LayoutAvx2& fp4_avx2() {
  return kLayoutAvx2<Fp4Codes<Ymm>>;
}

}  // namespace penstock::exec::cpu
