// f32, f16 and bf16 matrices, from safetensors and GGUF alike.
#include "quant/format.h"
#include "quant/format_list.h"

namespace penstock::quant {
namespace {

class Dense final : public Format {
 public:
  Dense(std::string_view name, std::string_view text) : name_(name), text_(text) {}

  std::string_view name() const override { return name_; }
  bool integer_codes(const Matrix&) const override { return false; }
  int code_bits(const Matrix&) const override { return 0; }
  int code_group(const Matrix&) const override { return 0; }
  void codes(const Matrix&, int64_t, RowCodes) const override { no_codes(); }

  void dequantize(const Matrix& matrix, int64_t row, std::span<float> out) const override {
    tensor::read_f32(matrix.codes, matrix.stored_row(row) * matrix.cols, out);
  }

  size_t row_bytes(const Matrix& matrix) const override {
    return static_cast<size_t>(matrix.cols) * tensor::size_bytes(matrix.codes.dtype);
  }

  std::string_view describe() const override { return text_; }

 private:
  std::string_view name_;
  std::string_view text_;
};

}  // namespace

const Format& dense_f32() {
  static const Dense format("f32", "32-bit floating point");
  return format;
}

const Format& dense_f16() {
  static const Dense format("f16", "16-bit floating point, 5 bits of exponent");
  return format;
}

const Format& dense_bf16() {
  static const Dense format("bf16", "16-bit floating point, 8 bits of exponent");
  return format;
}

}  // namespace penstock::quant
