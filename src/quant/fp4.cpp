#include "quant/fp4.h"

#include "quant/small_float.h"

namespace penstock::quant {
namespace {

/// 2 * fp4 + 12 of each code.
constexpr uint8_t kUnsigned[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

const std::byte* packed_row(const Matrix& matrix, int64_t stored_row) {
  return matrix.codes.bytes.data() + static_cast<size_t>(stored_row * (matrix.cols / 2));
}

uint8_t code_at(const std::byte* packed, int64_t column) {
  const auto pair = static_cast<uint8_t>(packed[column / 2]);
  return column % 2 ? pair >> 4 : pair & 15;
}

}  // namespace

float Fp4Format::scale_at(const Matrix& matrix, int64_t stored_row, int64_t group) const {
  const int64_t groups = matrix.cols / matrix.group_size;
  return scale(matrix,
               static_cast<uint8_t>(matrix.scales.bytes[static_cast<size_t>(stored_row * groups + group)]));
}

void Fp4Format::codes(const Matrix& matrix, int64_t row, RowCodes out) const {
  const int64_t stored = matrix.stored_row(row);
  const std::byte* packed = packed_row(matrix, stored);
  for (int64_t c = 0; c < matrix.cols; ++c) out.codes[static_cast<size_t>(c)] = kUnsigned[code_at(packed, c)];
  for (int64_t g = 0; g < matrix.cols / matrix.group_size; ++g) {
    const float s = scale_at(matrix, stored, g);
    out.scales[static_cast<size_t>(g)] = 0.5f * s;
    out.biases[static_cast<size_t>(g)] = -6.0f * s;
  }
}

void Fp4Format::dequantize(const Matrix& matrix, int64_t row, std::span<float> out) const {
  const int64_t stored = matrix.stored_row(row);
  const std::byte* packed = packed_row(matrix, stored);
  for (int64_t g = 0; g < matrix.cols / matrix.group_size; ++g) {
    const float s = scale_at(matrix, stored, g);
    for (int64_t c = g * matrix.group_size; c < (g + 1) * matrix.group_size; ++c) {
      out[static_cast<size_t>(c)] = s * kFp4[code_at(packed, c)];
    }
  }
}

size_t Fp4Format::row_bytes(const Matrix& matrix) const {
  return static_cast<size_t>(matrix.cols / 2 + matrix.cols / matrix.group_size);
}

}  // namespace penstock::quant
