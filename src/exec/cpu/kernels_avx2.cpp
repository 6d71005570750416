#include "exec/cpu/kernels_avx2.h"

#include "exec/cpu/kernels_avx512.h"

namespace penstock::exec::cpu {

namespace {

constexpr int32_t kPanelFrom = 4;  // activation rows that pay for unpacking a panel

}  // namespace

const LayoutAvx2& layout_avx2(CodeLayout layout) {
  switch (layout) {
    case CodeLayout::kTwo:
      return two_avx2();
    case CodeLayout::kThree:
      return three_avx2();
    case CodeLayout::kFour:
      return four_avx2();
    case CodeLayout::kFive:
      return five_avx2();
    case CodeLayout::kSix:
      return six_avx2();
    case CodeLayout::kFp4:
      return fp4_avx2();
    case CodeLayout::kEight:
    case CodeLayout::kFp8:  // no integers, linear_fp8_avx2
      break;
  }
  return eight_avx2();
}

void linear_codes_avx2(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                       uint8_t* scratch) {
  const LayoutAvx2& layout = layout_avx2(w.layout);
  if (x.m >= kPanelFrom) {
    layout.multiply_panels(w, x, strips, out, scratch);
    strips.first = strips.last - (strips.last - strips.first) % 2;
  }
  layout.multiply_strips(w, x, strips, out);
}

namespace {

constexpr Kernels kAvx2Table = {
    .name = "avx2",
    .quantize_row = quantize_row_avx2,
    .linear_codes = linear_codes_avx2,
    .linear_exact = linear_exact_avx2,
    .linear_dense = linear_dense_avx2,
    .rms_norm = rms_norm_avx2,
    .layer_norm = layer_norm_avx2,
    .activate = activate_avx2,
    .add = add_avx2,
    .rotate = rotate_avx2,
    .to_f16 = to_f16_avx2,
    .from_f16 = from_f16_avx2,
    .from_codes8 = from_codes8_avx2,
    .from_codes4 = from_codes4_avx2,
    .attend_tile = attend_tile_avx2,
    .merge_partial = merge_partial_avx2,
    .finish_partial = finish_partial_avx2,
    .softcap = softcap_avx2,
};

/// The other kernels of AVX2 serve the wider processor too.
constexpr Kernels with_avx512() {
  Kernels table = kAvx2Table;
  table.name = "avx512+vnni";
  table.strips = 4;
  table.queries = 48;
  table.quantize_row = quantize_row_avx512;
  table.linear_codes = linear_codes_avx512;
  table.rms_norm = rms_norm_avx512;
  table.activate = activate_avx512;
  table.add = add_avx512;
  table.attend_tile = attend_tile_avx512;
  return table;
}

}  // namespace

const Kernels* avx2_kernels() {
  return &kAvx2Table;
}

const Kernels* avx512_kernels() {
  static constexpr Kernels kTable = with_avx512();
  return &kTable;
}

}  // namespace penstock::exec::cpu
