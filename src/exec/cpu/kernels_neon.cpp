#include "exec/cpu/kernels_neon.h"

namespace penstock::exec::cpu {

namespace {

constexpr Kernels kNeonTable = {
    .name = "neon",
    .quantize_row = quantize_row_neon,
    .linear_codes = linear_codes_neon,
    .linear_exact = linear_exact_neon,
    .linear_dense = linear_dense_neon,
    .rms_norm = rms_norm_neon,
    .layer_norm = layer_norm_scalar,
    .activate = activate_neon,
    .add = add_neon,
    .rotate = rotate_neon,
    .to_f16 = to_f16_neon,
    .from_f16 = from_f16_neon,
    .from_codes8 = from_codes8_neon,
    .from_codes4 = from_codes4_neon,
    .attend_tile = attend_tile_neon,
    .merge_partial = merge_partial_neon,
    .finish_partial = finish_partial_neon,
    .softcap = softcap_neon,
};

constexpr Kernels with_dotprod() {
  Kernels table = kNeonTable;
  table.name = "neon+dotprod";
  table.linear_codes = linear_codes_dotprod_neon;
  return table;
}

constexpr Kernels with_i8mm() {
  Kernels table = kNeonTable;
  table.name = "neon+i8mm";
  table.linear_codes = linear_codes_i8mm_neon;
  return table;
}

}  // namespace

const Kernels* neon_kernels() {
  return &kNeonTable;
}

const Kernels* neon_dotprod_kernels() {
  static constexpr Kernels kTable = with_dotprod();
  return &kTable;
}

const Kernels* neon_i8mm_kernels() {
  static constexpr Kernels kTable = with_i8mm();
  return &kTable;
}

}  // namespace penstock::exec::cpu
