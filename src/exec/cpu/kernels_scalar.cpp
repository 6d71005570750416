#include "exec/cpu/kernels_scalar.h"

namespace penstock::exec::cpu {

const Kernels& scalar_kernels() {
  static constexpr Kernels kTable = {
      .name = "scalar",
      .quantize_row = quantize_row_scalar,
      .linear_codes = linear_codes_scalar,
      .linear_exact = linear_exact_scalar,
      .linear_dense = linear_dense_scalar,
      .rms_norm = rms_norm_scalar,
      .layer_norm = layer_norm_scalar,
      .activate = activate_scalar,
      .add = add_scalar,
      .rotate = rotate_scalar,
      .to_f16 = to_f16_scalar,
      .from_f16 = from_f16_scalar,
      .from_codes8 = from_codes8_scalar,
      .from_codes4 = from_codes4_scalar,
      .attend_tile = attend_tile_scalar,
      .merge_partial = merge_partial_scalar,
      .finish_partial = finish_partial_scalar,
      .softcap = softcap_scalar,
  };
  return kTable;
}

}  // namespace penstock::exec::cpu
