// What mxfp4 and nvfp4 share: E2M1 codes under one scale per group. Stateless, any thread. Internal to quant.
#pragma once

#include "quant/format.h"

namespace penstock::quant {

/// value = scale * fp4. As integers: code = 2 * fp4 + 12 (0..24), scale / 2, bias = -6 * scale. Equal bit for
/// bit while the scale has few bits and is at most 2^125, except that -0 becomes +0.
class Fp4Format : public Format {
 public:
  bool integer_codes(const Matrix&) const override { return true; }
  int code_bits(const Matrix&) const override { return 5; }
  bool fp4_codes(const Matrix&) const override { return true; }
  int code_group(const Matrix& matrix) const override { return matrix.group_size; }
  void codes(const Matrix& matrix, int64_t row, RowCodes out) const override;
  void dequantize(const Matrix& matrix, int64_t row, std::span<float> out) const override;
  size_t row_bytes(const Matrix& matrix) const override;

 protected:
  virtual float scale(const Matrix& matrix, uint8_t bits) const = 0;

 private:
  float scale_at(const Matrix& matrix, int64_t stored_row, int64_t group) const;
};

}  // namespace penstock::quant
