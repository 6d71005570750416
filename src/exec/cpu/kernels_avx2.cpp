#include "exec/cpu/kernels_avx2.h"

namespace penstock::exec::cpu {

namespace {

constexpr int32_t kPanelFrom = 9;  // activation rows that pay for unpacking a panel

}  // namespace

void linear_codes_avx2(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                       uint8_t* scratch) {
  if (w.width == CodeWidth::kEight) return linear_eight_avx2(w, x, strips, out);
  if (x.m >= kPanelFrom) {
    linear_panel_avx2(w, x, strips, out, scratch);
    strips.first = strips.last - (strips.last - strips.first) % 2;
  }
  linear_four_avx2(w, x, strips, out);
}

const Kernels* avx2_kernels() {
  static constexpr Kernels kTable = {
      .name = "avx2",
      .quantize_row = quantize_row_avx2,
      .linear_codes = linear_codes_avx2,
      .linear_exact = linear_exact_avx2,
      .linear_dense = linear_dense_avx2,
      .rms_norm = rms_norm_avx2,
      .activate = activate_avx2,
      .add = add_avx2,
      .rotate = rotate_avx2,
      .to_f16 = to_f16_avx2,
      .from_f16 = from_f16_avx2,
      .attend_tile = attend_tile_avx2,
      .merge_partial = merge_partial_avx2,
      .finish_partial = finish_partial_avx2,
      .softcap = softcap_avx2,
      .logit_block = logit_block_avx2,
  };
  return &kTable;
}

}  // namespace penstock::exec::cpu
