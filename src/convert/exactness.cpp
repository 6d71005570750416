#include "convert/exactness.h"

#include <atomic>
#include <bit>
#include <functional>
#include <vector>

#include "convert/parallel.h"
#include "quant/format.h"

namespace penstock::convert {
namespace {

using tensor::DType;

/// Whether `good` is true of every row. `good` is made once a thread, so that it may own buffers.
bool every_row(const quant::Matrix& matrix, int threads,
               const std::function<std::function<bool(int64_t row)>()>& make_good) {
  std::atomic<bool> all = true;
  parallel_rows(matrix.rows, threads, [&](int64_t first, int64_t count) {
    const auto good = make_good();
    for (int64_t r = first; r < first + count && all.load(std::memory_order_relaxed); ++r) {
      if (!good(r)) all = false;
    }
  });
  return all;
}

}  // namespace

bool holds(DType dtype, float value) {
  if (dtype == DType::kF32) return true;
  const float back = dtype == DType::kF16 ? tensor::f16_to_f32(tensor::f32_to_f16(value))
                                          : tensor::bf16_to_f32(tensor::f32_to_bf16(value));
  return std::bit_cast<uint32_t>(back) == std::bit_cast<uint32_t>(value);
}

bool holds_values(DType dtype, const quant::Matrix& matrix, float offset, int threads) {
  if (dtype == DType::kF32 && offset == 0) return true;
  return every_row(matrix, threads, [&]() -> std::function<bool(int64_t)> {
    return [dtype, offset, &matrix,
            values = std::vector<float>(static_cast<size_t>(matrix.cols))](int64_t row) mutable {
      matrix.format->dequantize(matrix, row, values);
      for (const float value : values) {
        const float moved = value + offset;
        if (!holds(dtype, moved) || moved - offset != value) return false;
      }
      return true;
    };
  });
}

bool holds_scales(DType dtype, const quant::Matrix& matrix, int threads) {
  if (dtype == DType::kF32) return true;
  return every_row(matrix, threads, [&]() -> std::function<bool(int64_t)> {
    const auto cols = static_cast<size_t>(matrix.cols);
    const size_t groups = cols / static_cast<size_t>(matrix.format->code_group(matrix));
    return [dtype, &matrix, codes = std::vector<uint8_t>(cols), scales = std::vector<float>(groups),
            biases = std::vector<float>(groups)](int64_t row) mutable {
      matrix.format->codes(matrix, row, {codes, scales, biases});
      for (size_t g = 0; g < scales.size(); ++g) {
        if (!holds(dtype, scales[g]) || !holds(dtype, biases[g])) return false;
      }
      return true;
    };
  });
}

}  // namespace penstock::convert
