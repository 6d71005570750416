// Codes of two and three bits.
#include "exec/cpu/linear_panel_avx2.h"

namespace penstock::exec::cpu {

const LayoutAvx2& two_avx2() {
  return kLayoutAvx2<TwoCodes<Ymm>>;
}

const LayoutAvx2& three_avx2() {
  return kLayoutAvx2<ThreeCodes<Ymm>>;
}

}  // namespace penstock::exec::cpu
