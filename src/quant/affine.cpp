// MLX affine: value = scale * code + bias, the product and the sum each rounded to float32, with scale and
// bias widened to float32 first. That is mx.dequantize (and mx.quantized_matmul) on scales cast to float32.
// With f16 or bf16 scales the product is exact, so a fused multiply-add gives the same; with f32 scales it
// may differ in the last bit.
#include "quant/bit_stream.h"
#include "quant/format.h"
#include "quant/format_list.h"

namespace penstock::quant {
namespace {

class Affine final : public Format {
 public:
  std::string_view name() const override { return "affine"; }
  bool integer_codes(const Matrix&) const override { return true; }
  int code_bits(const Matrix& matrix) const override { return matrix.bits; }
  int code_group(const Matrix& matrix) const override { return matrix.group_size; }

  void codes(const Matrix& matrix, int64_t row, RowCodes out) const override {
    const int64_t stored = matrix.stored_row(row);
    const size_t packed_bytes = static_cast<size_t>(matrix.cols * matrix.bits / 8);
    unpack_bits(matrix.codes.bytes.data() + static_cast<size_t>(stored) * packed_bytes, matrix.bits,
                out.codes);
    const int64_t first = stored * (matrix.cols / matrix.group_size);
    tensor::read_f32(matrix.scales, first, out.scales);
    tensor::read_f32(matrix.biases, first, out.biases);
  }

  void dequantize(const Matrix& matrix, int64_t row, std::span<float> out) const override {
    const auto cols = static_cast<size_t>(matrix.cols);
    const auto group = static_cast<size_t>(matrix.group_size);
    std::vector<uint8_t> code(cols);
    std::vector<float> scale(cols / group);
    std::vector<float> bias(cols / group);
    codes(matrix, row, {code, scale, bias});
    for (size_t c = 0; c < cols; ++c) {
      const float product = scale[c / group] * static_cast<float>(code[c]);
      out[c] = product + bias[c / group];
    }
  }

  size_t row_bytes(const Matrix& matrix) const override {
    const size_t scale_bytes =
        tensor::size_bytes(matrix.scales.dtype) + tensor::size_bytes(matrix.biases.dtype);
    return static_cast<size_t>(matrix.cols * matrix.bits / 8) +
           static_cast<size_t>(matrix.cols / matrix.group_size) * scale_bytes;
  }

  std::string_view describe() const override {
    return "MLX affine: 2, 3, 4, 5, 6 or 8 bits in groups of 32, 64 or 128, a scale and a bias per group";
  }
};

}  // namespace

const Format& affine() {
  static const Affine format;
  return format;
}

}  // namespace penstock::quant
