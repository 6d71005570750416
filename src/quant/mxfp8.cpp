#include <cstring>

#include "quant/format_list.h"
#include "quant/small_float.h"

namespace penstock::quant {
namespace {

class Mxfp8 final : public Format {
 public:
  std::string_view name() const override { return "mxfp8"; }
  bool integer_codes(const Matrix&) const override { return false; }
  int code_bits(const Matrix&) const override { return 0; }
  bool fp8_codes(const Matrix&) const override { return true; }
  int code_group(const Matrix&) const override { return 0; }

  void codes(const Matrix& matrix, int64_t row, RowCodes out) const override {
    const auto stored = static_cast<size_t>(matrix.stored_row(row)), cols = static_cast<size_t>(matrix.cols);
    const size_t groups = cols / static_cast<size_t>(matrix.group_size);
    std::memcpy(out.codes.data(), &matrix.codes.bytes[stored * cols], cols);
    for (size_t g = 0; g < groups; ++g) {
      out.scales[g] = e8m0_to_f32(static_cast<uint8_t>(matrix.scales.bytes[stored * groups + g]));
      out.biases[g] = 0;
    }
  }

  void dequantize(const Matrix& matrix, int64_t row, std::span<float> out) const override {
    const int64_t stored = matrix.stored_row(row);
    const std::byte* code = matrix.codes.bytes.data() + static_cast<size_t>(stored * matrix.cols);
    const std::byte* scale =
        matrix.scales.bytes.data() + static_cast<size_t>(stored * (matrix.cols / matrix.group_size));
    for (int64_t c = 0; c < matrix.cols; ++c) {
      out[static_cast<size_t>(c)] = e8m0_to_f32(static_cast<uint8_t>(scale[c / matrix.group_size])) *
                                    e4m3_to_f32(static_cast<uint8_t>(code[c]));
    }
  }

  size_t row_bytes(const Matrix& matrix) const override {
    return static_cast<size_t>(matrix.cols + matrix.cols / matrix.group_size);
  }

  std::string_view describe() const override {
    return "OCP MXFP8: E4M3 codes in groups of 32, a power-of-two scale (E8M0) per group";
  }
};

}  // namespace

const Format& mxfp8() {
  static const Mxfp8 format;
  return format;
}

}  // namespace penstock::quant
