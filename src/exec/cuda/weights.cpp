#include "exec/cuda/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "exec/cuda/pack.h"
#include "quant/format.h"
#include "tensor/dtype.h"

namespace penstock::exec::cuda {
namespace {

constexpr size_t kStagingBytes = size_t{64} << 20;

/// Calls work(first, last) for shares of [0, n) on every core.
template <class Work>
void share_out(int64_t n, Work work) {
  const int64_t threads =
      std::clamp<int64_t>(static_cast<int64_t>(std::thread::hardware_concurrency()), 1, (n + 7) / 8);
  std::vector<std::thread> pool;
  for (int64_t i = 0; i < threads; ++i)
    pool.emplace_back([=] { work(n * i / threads, n * (i + 1) / threads); });
  for (std::thread& thread : pool) thread.join();
}

struct Source {
  const quant::Matrix* matrix = nullptr;  // null: a row of padding
  int64_t row = 0;
};

Source source_of(const Stack& stack, int64_t row) {
  if (stack.interleaved) {
    const quant::Matrix* matrix = stack.parts[static_cast<size_t>(row % 16 / 8)];
    const int64_t own = row / 16 * 8 + row % 8;
    return own < matrix->rows ? Source{matrix, own} : Source{};
  }
  for (const quant::Matrix* matrix : stack.parts) {
    if (row < matrix->rows) return {matrix, row};
    row -= matrix->rows;
  }
  return {};
}

/// The power of two that brings the largest value of the stack near the top of float16.
float factor_of(const Stack& stack) {
  float most = 0;
  for (const quant::Matrix* matrix : stack.parts) {
    std::vector<float> maxima(static_cast<size_t>(matrix->rows));
    share_out(matrix->rows, [&](int64_t first, int64_t last) {
      std::vector<float> row(static_cast<size_t>(matrix->cols));
      for (int64_t r = first; r < last; ++r) {
        matrix->format->dequantize(*matrix, r, row);
        for (const float v : row)
          maxima[static_cast<size_t>(r)] = std::max(maxima[static_cast<size_t>(r)], std::abs(v));
      }
    });
    for (const float v : maxima) most = std::max(most, v);
  }
  return most > 0 && std::isfinite(most) ? std::exp2(static_cast<float>(std::ilogb(most) - 13)) : 1.0f;
}

/// The power of two that keeps scales, 1024 times the scale and biases inside float16, with room below for
/// the small ones.
float scale_factor_of(const Stack& stack) {
  float most = 0;
  for (const quant::Matrix* matrix : stack.parts) {
    std::vector<float> maxima(static_cast<size_t>(matrix->rows));
    const auto groups = static_cast<size_t>(matrix->cols / matrix->format->code_group(*matrix));
    share_out(matrix->rows, [&](int64_t first, int64_t last) {
      std::vector<uint8_t> codes(static_cast<size_t>(matrix->cols));
      std::vector<float> scales(groups), biases(groups);
      for (int64_t r = first; r < last; ++r) {
        if (matrix->format->name() == "affine") {
          tensor::read_f32(matrix->scales, matrix->stored_row(r) * static_cast<int64_t>(groups), scales);
          tensor::read_f32(matrix->biases, matrix->stored_row(r) * static_cast<int64_t>(groups), biases);
        } else {
          matrix->format->codes(*matrix, r, {codes, scales, biases});
        }
        float& own = maxima[static_cast<size_t>(r)];
        for (size_t g = 0; g < groups; ++g)
          own = std::max({own, std::abs(scales[g]) * 1024, std::abs(biases[g])});
      }
    });
    for (const float v : maxima) most = std::max(most, v);
  }
  return most > 0 && std::isfinite(most) ? std::exp2(static_cast<float>(std::ilogb(most) - 14)) : 1.0f;
}

}  // namespace

TileClass class_of(const quant::Matrix& matrix, bool exact) {
  if (matrix.format == nullptr || matrix.rows <= 0 || matrix.cols <= 0)
    throw base::Error(base::Code::kUnsupported, "[exec.cuda.weight] expected a stored matrix");
  if (exact) return {TileKind::kFloat};
  if (!matrix.format->integer_codes(matrix)) return {TileKind::kHalf};
  const int32_t group = std::min(matrix.format->code_group(matrix), 64);
  if (group != 16 && group != 32 && group != 64) return {TileKind::kHalf};
  return {matrix.format->code_bits(matrix) <= 4 ? TileKind::kFour : TileKind::kEight, group};
}

int64_t Stack::rows() const {
  if (interleaved) return (parts.front()->rows + 7) / 8 * 16;
  int64_t rows = 0;
  for (const quant::Matrix* matrix : parts) rows += matrix->rows;
  return rows;
}

DeviceMatrix WeightLoader::load(const Stack& stack) {
  DeviceMatrix out;
  const TileClass of = class_of(*stack.parts.front(), exact_);
  out.tiles.shape = make_shape(of, stack.rows(), stack.cols(), stack.interleaved);
  out.memory = Memory::device(out.tiles.shape.bytes());
  check(cudaMemset(out.memory.as(), 0, out.tiles.shape.bytes()), "clear weights");
  out.tiles.data = out.memory.as<uint8_t>();
  if (of.kind == TileKind::kHalf) out.tiles.factor = factor_of(stack);
  if (of.kind == TileKind::kFour || of.kind == TileKind::kEight) out.tiles.factor = scale_factor_of(stack);
  if (host_.bytes() == 0) {
    host_ = Memory::pinned(kStagingBytes);
    device_ = Memory::device(kStagingBytes);
  }
  pack(stack, out);
  return out;
}

/// Bytes of one staged row.
static size_t staged_bytes(const TileShape& shape) {
  const auto cols = static_cast<size_t>(shape.cols);
  if (shape.of.kind == TileKind::kFloat) return cols * 4;
  if (shape.of.kind == TileKind::kHalf) return cols * 2;
  return cols + cols / static_cast<size_t>(shape.of.group) * 8;
}

void WeightLoader::fill(const Stack& stack, const TileMatrix& tiles, int64_t first_row, int64_t n_rows) {
  const TileShape& shape = tiles.shape;
  const auto cols = static_cast<size_t>(shape.cols);
  auto* codes = host_.as<uint8_t>();
  auto* scales = reinterpret_cast<float*>(codes + static_cast<size_t>(n_rows) * cols);
  share_out(n_rows, [&](int64_t first, int64_t last) {
    std::vector<float> row(cols), scale(cols), bias(cols);
    for (int64_t r = first; r < last; ++r) {
      const Source from = source_of(stack, first_row + r);
      const auto at = static_cast<size_t>(r) * cols;
      if (shape.of.kind == TileKind::kFloat || shape.of.kind == TileKind::kHalf) {
        std::fill(row.begin(), row.end(), 0.0f);
        if (from.matrix != nullptr) from.matrix->format->dequantize(*from.matrix, from.row, row);
        if (shape.of.kind == TileKind::kFloat) {
          std::memcpy(host_.as<float>() + at, row.data(), cols * 4);
        } else {
          auto* to = host_.as<uint16_t>() + at;
          for (size_t c = 0; c < cols; ++c) to[c] = tensor::f32_to_f16(row[c] / tiles.factor);
        }
        continue;
      }
      const size_t groups = cols / static_cast<size_t>(shape.of.group);
      float* to = scales + static_cast<size_t>(r) * groups * 2;
      if (from.matrix == nullptr) {
        std::memset(codes + at, 0, cols);
        std::memset(to, 0, groups * 8);
        continue;
      }
      const auto stored = static_cast<size_t>(from.matrix->format->code_group(*from.matrix));
      from.matrix->format->codes(*from.matrix, from.row,
                                 {std::span(codes + at, cols), std::span(scale).first(cols / stored),
                                  std::span(bias).first(cols / stored)});
      for (size_t g = 0; g < groups; ++g) {
        const size_t own = g * static_cast<size_t>(shape.of.group) / stored;
        to[g * 2] = scale[own] / tiles.factor;
        to[g * 2 + 1] = bias[own] / tiles.factor;
      }
    }
  });
}

void WeightLoader::pack(const Stack& stack, DeviceMatrix& out) {
  const TileShape& shape = out.tiles.shape;
  const bool dense = shape.of.kind == TileKind::kFloat;
  const int64_t all = dense ? shape.rows : shape.padded_rows();
  const size_t row_bytes = staged_bytes(shape);
  const int64_t step = static_cast<int64_t>(kStagingBytes / row_bytes) / kTileRows * kTileRows;
  if (step == 0) throw base::Error(base::Code::kUnsupported, "[exec.cuda.weight] expected shorter rows");
  for (int64_t first = 0; first < all; first += step) {
    const int64_t n = std::min(step, all - first);
    fill(stack, out.tiles, first, n);
    const auto bytes = static_cast<size_t>(n) * row_bytes;
    if (dense) {
      check(cudaMemcpy(out.memory.as<uint8_t>() + static_cast<size_t>(first) * row_bytes, host_.as(), bytes,
                       cudaMemcpyHostToDevice),
            "copy weights");
      continue;
    }
    check(cudaMemcpy(device_.as(), host_.as(), bytes, cudaMemcpyHostToDevice), "copy weights");
    StagedRows staged;
    staged.codes = device_.as<uint8_t>();
    staged.scales = reinterpret_cast<const float2*>(staged.codes +
                                                    static_cast<size_t>(n) * static_cast<size_t>(shape.cols));
    staged.values = device_.as();
    staged.first_row = static_cast<int32_t>(first);
    staged.n_rows = static_cast<int32_t>(n);
    pack_rows(out.tiles, out.memory.as<uint8_t>(), staged, nullptr);
    check(cudaDeviceSynchronize(), "pack weights");
  }
}

Memory WeightLoader::load_vector(const quant::Matrix& matrix, float offset) {
  std::vector<float> values(static_cast<size_t>(matrix.rows * matrix.cols));
  for (int64_t r = 0; r < matrix.rows; ++r)
    matrix.format->dequantize(
        matrix, r,
        std::span(values).subspan(static_cast<size_t>(r * matrix.cols), static_cast<size_t>(matrix.cols)));
  for (float& value : values) value += offset;
  Memory memory = Memory::device(values.size() * 4);
  check(cudaMemcpy(memory.as(), values.data(), values.size() * 4, cudaMemcpyHostToDevice), "copy a vector");
  return memory;
}

}  // namespace penstock::exec::cuda
