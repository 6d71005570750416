// Integer codes times int8 activations with the dot product of ARMv8.2.
#include "exec/cpu/linear_dotprod_neon.h"

#include "exec/cpu/kernels_neon.h"

namespace penstock::exec::cpu {

void linear_codes_dotprod_neon(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                               uint8_t* /*scratch*/) {
  strips_by_layout<DotSums, 4>(w, x, strips, out);
}

}  // namespace penstock::exec::cpu
