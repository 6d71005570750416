// Codes of five, six and eight bits.
#include "exec/cpu/linear_panel_avx2.h"

namespace penstock::exec::cpu {

const LayoutAvx2& five_avx2() {
  return kLayoutAvx2<FiveCodes<Ymm>>;
}

const LayoutAvx2& six_avx2() {
  return kLayoutAvx2<SixCodes<Ymm>>;
}

const LayoutAvx2& eight_avx2() {
  return kLayoutAvx2<EightCodes<Ymm>>;
}

}  // namespace penstock::exec::cpu
