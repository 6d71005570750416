#include "convert/rows.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "quant/bit_stream.h"
#include "quant/format.h"
#include "quant/quantize.h"

namespace penstock::convert {
namespace {

using tensor::DType;

/// Everything from here on rounds to infinity in float16.
constexpr float kFloat16End = 65520.0f;

void round_to(const Item& item, std::span<const float> values, std::byte* out) {
  if (item.dtype == DType::kF16) {
    for (const float value : values) {
      if (std::abs(value) >= kFloat16End && std::isfinite(value)) {
        throw base::Error(base::Code::kUnsupported,
                          "[convert.rows] expected values that float16 holds in " + item.parts[0].name +
                              "; got " + std::to_string(value) + " (--dtype bfloat16 or float32 holds it)");
      }
    }
  }
  tensor::write_f32(values, item.dtype, out);
}

void copy_rows(const Item& item, int64_t first, int64_t count, std::span<std::byte* const> outs) {
  const tensor::View* const sources[] = {&item.matrix.codes, &item.matrix.scales, &item.matrix.biases};
  for (size_t p = 0; p < item.parts.size(); ++p) {
    const size_t bytes = item.parts[p].row_bytes;
    for (int64_t r = 0; r < count; ++r) {
      const auto stored = static_cast<size_t>(item.matrix.stored_row(first + r));
      std::memcpy(outs[p] + static_cast<size_t>(r) * bytes, sources[p]->bytes.data() + stored * bytes, bytes);
    }
  }
}

void dense_rows(const Item& item, int64_t first, int64_t count, std::byte* out) {
  std::vector<float> values(static_cast<size_t>(item.matrix.cols));
  const size_t row_bytes = values.size() * tensor::size_bytes(item.dtype);
  for (int64_t r = 0; r < count; ++r) {
    item.matrix.format->dequantize(item.matrix, first + r, values);
    if (item.offset != 0) {
      for (float& value : values) value += item.offset;
    }
    round_to(item, values, out + static_cast<size_t>(r) * row_bytes);
  }
}

void code_rows(const Item& item, int64_t first, int64_t count, std::span<std::byte* const> outs) {
  const auto cols = static_cast<size_t>(item.matrix.cols);
  const size_t groups = cols / static_cast<size_t>(item.params.group_size);
  std::vector<uint8_t> codes(cols);
  std::vector<float> scales(groups);
  std::vector<float> biases(groups);
  for (int64_t r = 0; r < count; ++r) {
    const auto at = static_cast<size_t>(r);
    item.matrix.format->codes(item.matrix, first + r, {codes, scales, biases});
    quant::pack_bits(codes, item.params.bits, outs[0] + at * item.parts[0].row_bytes);
    round_to(item, scales, outs[1] + at * item.parts[1].row_bytes);
    round_to(item, biases, outs[2] + at * item.parts[2].row_bytes);
  }
}

void quantized_rows(const Item& item, int64_t first, int64_t count, std::span<std::byte* const> outs) {
  const int64_t cols = item.matrix.cols;
  std::vector<std::byte> values(static_cast<size_t>(count * cols) * tensor::size_bytes(item.dtype));
  dense_rows(item, first, count, values.data());
  const auto made = quant::quantize({item.dtype, {count, cols}, values}, item.params, "");
  for (size_t p = 0; p < made.size(); ++p) std::memcpy(outs[p], made[p].bytes.data(), made[p].bytes.size());
}

}  // namespace

void make_rows(const Item& item, int64_t first, int64_t count, std::span<std::byte* const> outs) {
  if (count == 0) return;
  switch (item.way) {
    case Way::kCopy:
      return copy_rows(item, first, count, outs);
    case Way::kDense:
      return dense_rows(item, first, count, outs[0]);
    case Way::kCodes:
      return code_rows(item, first, count, outs);
    case Way::kQuantize:
      return quantized_rows(item, first, count, outs);
  }
}

}  // namespace penstock::convert
