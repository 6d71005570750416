#include "exec/cpu/packed_matrix.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "exec/cpu/pack_codes.h"
#include "exec/cpu/processor.h"
#include "quant/format.h"
#include "tensor/dtype.h"

namespace penstock::exec::cpu {

namespace {

bool fits_bf16(float value) {
  return std::bit_cast<uint32_t>(tensor::bf16_to_f32(tensor::f32_to_bf16(value))) ==
         std::bit_cast<uint32_t>(value);
}

/// Packs integer codes. False when a scale did not fit the type that was guessed for it. Pages are given back
/// on the way: the largest matrix is packed last, when all others are in memory.
bool pack_integers(const quant::Matrix& matrix, PackedMatrix& packed, ThreadPool& pool,
                   const MappedPages& pages, Slabs& slabs) {
  uint8_t* blocks = slabs.take(packed_bytes(packed));
  packed.codes.blocks = blocks;
  return pack_codes(matrix, packed.codes, pool, blocks, [&](int64_t first, int64_t last) {
    if (!matrix.row_order.empty()) return;
    for (const auto& view : {matrix.codes, matrix.scales, matrix.biases}) {
      const size_t row_bytes = view.bytes.size() / static_cast<size_t>(matrix.rows);
      pages.drop(view.bytes.data() + static_cast<size_t>(first) * row_bytes,
                 static_cast<size_t>(last - first) * row_bytes);
    }
  });
}

/// True when dequantised rows are exactly bfloat16, judged by three of them.
bool rows_fit_bf16(const quant::Matrix& matrix) {
  std::vector<float> row(static_cast<size_t>(matrix.cols));
  for (const int64_t at : {int64_t{0}, matrix.rows / 2, matrix.rows - 1}) {
    matrix.format->dequantize(matrix, at, row);
    if (!std::ranges::all_of(row, fits_bf16)) return false;
  }
  return true;
}

/// Dequantises every row. False when a value did not fit bfloat16.
bool pack_dense(const quant::Matrix& matrix, PackedMatrix& packed, ThreadPool& pool, Slabs& slabs) {
  const bool narrow = packed.dense.type == DenseType::kBF16;
  const size_t row_bytes = static_cast<size_t>(packed.unit_bytes());
  uint8_t* memory = slabs.take(packed_bytes(packed));
  packed.dense.data = memory;
  std::atomic<bool> fit{true};
  pool.run([&](int32_t thread) {
    const DenormalScope scope(Denormals::kKept);
    std::vector<float> row(static_cast<size_t>(matrix.cols));
    const int64_t last = matrix.rows * (thread + 1) / pool.size();
    for (int64_t r = matrix.rows * thread / pool.size(); r < last; ++r) {
      matrix.format->dequantize(matrix, r, row);
      uint8_t* at = memory + static_cast<size_t>(r) * row_bytes;
      if (!narrow) {
        std::memcpy(at, row.data(), row_bytes);
        continue;
      }
      if (!std::ranges::all_of(row, fits_bf16)) fit.store(false);
      for (const float value : row) {
        const uint16_t bits = tensor::f32_to_bf16(value);
        std::memcpy(at, &bits, sizeof(bits));
        at += sizeof(bits);
      }
    }
  });
  return fit.load();
}

/// Dense rows of a plain type whose bytes may be read in place.
bool stored_dense(const quant::Matrix& matrix, DenseType& type) {
  const tensor::DType dtype = matrix.codes.dtype;
  const bool dense = matrix.group_size == 0;
  const bool plain =
      dtype == tensor::DType::kF32 || dtype == tensor::DType::kF16 || dtype == tensor::DType::kBF16;
  const size_t bytes = static_cast<size_t>(matrix.rows * matrix.cols) * tensor::size_bytes(dtype);
  if (!dense || !plain || matrix.codes.bytes.size() != bytes) return false;
  type = dtype == tensor::DType::kF32   ? DenseType::kF32
         : dtype == tensor::DType::kF16 ? DenseType::kF16
                                        : DenseType::kBF16;
  return true;
}

/// Rows of floats: where they lie, or as what holds them.
void plan_dense(const quant::Matrix& matrix, PackedMatrix& packed) {
  packed.integer = false;
  packed.dense = {.rows = matrix.rows, .cols = matrix.cols};
  if (stored_dense(matrix, packed.dense.type)) {
    if (matrix.codes.aligned()) {
      packed.dense.data = reinterpret_cast<const uint8_t*>(matrix.codes.bytes.data());
      if (!matrix.row_order.empty()) packed.dense.row_order = matrix.row_order.data();
    }
    return;
  }
  packed.dense.type = rows_fit_bf16(matrix) ? DenseType::kBF16 : DenseType::kF32;
}

}  // namespace

PackedMatrix plan_packing(const quant::Matrix& matrix, const std::string& name) {
  PackedMatrix packed;
  if (matrix.format == nullptr || matrix.rows <= 0 || matrix.cols <= 0)
    throw base::Error(base::Code::kUnsupported, "[exec.cpu.weight] " + name + ": expected a stored matrix");
  packed.integer = plan_codes(matrix, packed.codes);
  if (packed.integer) return packed;
  plan_dense(matrix, packed);
  return packed;
}

size_t packed_bytes(const PackedMatrix& planned) {
  return static_cast<size_t>(planned.units() * planned.unit_bytes());
}

PackedMatrix pack(const quant::Matrix& matrix, const std::string& name, ThreadPool& pool,
                  const MappedPages& pages, Slabs& slabs) {
  PackedMatrix packed = plan_packing(matrix, name);
  if (packed.integer && !pack_integers(matrix, packed, pool, pages, slabs)) {
    slabs.undo();
    if (packed.codes.layout == CodeLayout::kFp8) {
      plan_dense(matrix, packed);
    } else {
      packed.codes.scale_type = ScaleType::kF32;
      packed.codes.scale_factor = 1;
      packed.codes.zero = kStoredBias;
      pack_integers(matrix, packed, pool, pages, slabs);
    }
  }
  if (!packed.integer && packed.dense.data != nullptr) return packed;
  if (!packed.integer && !pack_dense(matrix, packed, pool, slabs)) {
    slabs.undo();
    packed.dense.type = DenseType::kF32;
    pack_dense(matrix, packed, pool, slabs);
  }
  for (const auto& view : {matrix.codes, matrix.scales, matrix.biases})
    pages.drop(view.bytes.data(), view.bytes.size());
  return packed;
}

std::vector<float> read_vector(const quant::Matrix& matrix) {
  std::vector<float> out(static_cast<size_t>(matrix.rows * matrix.cols));
  for (int64_t r = 0; r < matrix.rows; ++r)
    matrix.format->dequantize(matrix, r,
                              std::span(out).subspan(static_cast<size_t>(r * matrix.cols), matrix.cols));
  return out;
}

}  // namespace penstock::exec::cpu
