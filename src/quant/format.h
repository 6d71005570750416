// What one storage format is: how a row of a matrix reads, as float32 or as integers with scales. Stateless,
// any thread. Not how a processor likes it packed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "quant/matrix.h"

namespace penstock::quant {

/// One row in integer form: value[c] = scales[c / group] * codes[c] + biases[c / group], with group =
/// code_group().
struct RowCodes {
  std::span<uint8_t> codes;  // [cols], each below 2^code_bits
  std::span<float> scales;   // [cols / group]
  std::span<float> biases;   // [cols / group]
};

/// One row of a format whose scales are small integers times one half for each 256 columns: scale[g] = d *
/// scales[g] and bias[g] = -(dmin * minimums[g]), both exact in float32.
struct NestedRow {
  std::span<uint8_t> codes;     // [cols]
  std::span<int8_t> scales;     // [cols / code_group()]
  std::span<uint8_t> minimums;  // [cols / code_group()]; zeros in symmetric formats
  std::span<uint16_t> d, dmin;  // [cols / 256] half precision
};

class Format {
 public:
  virtual ~Format() = default;

  /// "f32", "f16", "bf16", "affine", "mxfp4", "mxfp8", "nvfp4", "q4_0" ... "q6_K".
  virtual std::string_view name() const = 0;

  /// True when codes() can give every row. The product and the sum, each rounded to float32 (or one fused
  /// multiply-add), then equal dequantize() bit for bit, except where the format's own comment says
  /// otherwise.
  virtual bool integer_codes(const Matrix& matrix) const = 0;

  /// 2..8; 0 without integer codes.
  virtual int code_bits(const Matrix& matrix) const = 0;

  /// True when codes() are E2M1 numbers, doubled and 12 added: 16 of the codes below 32.
  virtual bool fp4_codes(const Matrix&) const { return false; }

  /// True when codes() are the bytes of E4M3 numbers, and the value of each is scale * number.
  virtual bool fp8_codes(const Matrix&) const { return false; }

  /// The code of zero where every bias is -zero_code * scale; -1 where biases are free.
  virtual int zero_code(const Matrix&) const { return -1; }

  /// Columns that share a scale in codes(); 0 without integer codes.
  virtual int code_group(const Matrix& matrix) const = 0;

  /// Row `row` of the matrix. Throws Error(kInternal) without integer codes.
  virtual void codes(const Matrix& matrix, int64_t row, RowCodes out) const = 0;

  /// True when nested_codes() can give every row.
  virtual bool nested_scales(const Matrix&) const { return false; }

  /// Row `row` of the matrix; codes as in codes(). Throws Error(kInternal) without nested scales.
  virtual void nested_codes(const Matrix&, int64_t, NestedRow) const { no_codes(); }

  /// Row `row` of the matrix as the reference implementation computes it in float32. out: [cols].
  virtual void dequantize(const Matrix& matrix, int64_t row, std::span<float> out) const = 0;

  /// Stored bytes of one row, scales and biases included.
  virtual size_t row_bytes(const Matrix& matrix) const = 0;

  /// One sentence for the documentation.
  virtual std::string_view describe() const = 0;

 protected:
  [[noreturn]] void no_codes() const;
};

/// Every format, in the order of the documentation.
std::span<const Format* const> formats();

/// Null for an unknown name.
const Format* find_format(std::string_view name);

}  // namespace penstock::quant
