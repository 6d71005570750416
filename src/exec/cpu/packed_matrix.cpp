#include "exec/cpu/packed_matrix.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "exec/cpu/processor.h"
#include "quant/format.h"
#include "tensor/dtype.h"

namespace penstock::exec::cpu {

namespace {

/// Codes, scales and biases of the rows of one strip.
struct StripSource {
  std::vector<uint8_t> codes;  // [8, cols]
  std::vector<float> scales;   // [8, groups]
  std::vector<float> biases;   // [8, groups]

  explicit StripSource(const PackedCodes& to)
      : codes(static_cast<size_t>(kStripRows * to.cols)),
        scales(static_cast<size_t>(kStripRows * to.groups())),
        biases(static_cast<size_t>(kStripRows * to.groups())) {}

  void read(const quant::Matrix& matrix, const PackedCodes& to, int64_t strip) {
    for (int64_t lane = 0; lane < kStripRows; ++lane) {
      const int64_t row = strip * kStripRows + lane;
      const auto c = std::span(codes).subspan(static_cast<size_t>(lane * to.cols), to.cols);
      const auto s = std::span(scales).subspan(static_cast<size_t>(lane * to.groups()), to.groups());
      const auto b = std::span(biases).subspan(static_cast<size_t>(lane * to.groups()), to.groups());
      if (row < to.rows) {
        matrix.format->codes(matrix, row, {c, s, b});
        continue;
      }
      std::ranges::fill(c, uint8_t{0});
      std::ranges::fill(s, 0.0f);
      std::ranges::fill(b, 0.0f);
    }
  }
};

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

bool fits(ScaleType type, std::span<const float> values) {
  return std::ranges::all_of(values, [&](float v) {
    if (type == ScaleType::kF16) return same_bits(tensor::f16_to_f32(tensor::f32_to_f16(v)), v);
    if (type == ScaleType::kBF16) return same_bits(tensor::bf16_to_f32(tensor::f32_to_bf16(v)), v);
    return true;
  });
}

/// The narrowest type that holds the scales of some strips exactly. pack() checks all of them.
ScaleType guess_scale_type(const quant::Matrix& matrix, const PackedCodes& to) {
  StripSource strip(to);
  bool f16 = true, bf16 = true;
  for (const int64_t at : {int64_t{0}, to.strips() / 2, to.strips() - 1}) {
    strip.read(matrix, to, at);
    f16 = f16 && fits(ScaleType::kF16, strip.scales) && fits(ScaleType::kF16, strip.biases);
    bf16 = bf16 && fits(ScaleType::kBF16, strip.scales) && fits(ScaleType::kBF16, strip.biases);
  }
  return f16 ? ScaleType::kF16 : bf16 ? ScaleType::kBF16 : ScaleType::kF32;
}

void write_scales(ScaleType type, const std::vector<float>& from, int64_t groups, int64_t g, uint8_t* at) {
  for (int64_t lane = 0; lane < kStripRows; ++lane) {
    const float value = from[static_cast<size_t>(lane * groups + g)];
    if (type == ScaleType::kF32) {
      std::memcpy(at + lane * 4, &value, sizeof(value));
      continue;
    }
    const uint16_t bits = type == ScaleType::kF16 ? tensor::f32_to_f16(value) : tensor::f32_to_bf16(value);
    std::memcpy(at + lane * 2, &bits, sizeof(bits));
  }
}

void write_strip(const StripSource& from, const PackedCodes& to, int64_t strip, uint8_t* blocks) {
  const int64_t groups = to.groups();
  const int64_t step = to.width == CodeWidth::kFour ? 8 : 4;
  const uint32_t flip = to.is_signed() ? 0x80808080 : 0;
  for (int64_t g = 0; g < groups; ++g) {
    uint8_t* block = blocks + strip * to.strip_bytes() + g * to.block_bytes();
    for (int64_t c = 0; c < to.group; c += step)
      for (int64_t lane = 0; lane < kStripRows; ++lane) {
        uint32_t halves[2];
        std::memcpy(halves, &from.codes[static_cast<size_t>(lane * to.cols + g * to.group + c)],
                    static_cast<size_t>(step));
        const uint32_t word = to.width == CodeWidth::kFour ? halves[0] | halves[1] << 4 : halves[0] ^ flip;
        std::memcpy(block + c / step * 32 + lane * 4, &word, sizeof(word));
      }
    uint8_t* scales = block + to.code_bytes();
    write_scales(to.scale_type, from.scales, groups, g, scales);
    write_scales(to.scale_type, from.biases, groups, g, scales + kStripRows * to.scale_bytes());
  }
}

/// False when a scale did not fit the guessed type.
bool pack_codes(const quant::Matrix& matrix, PackedMatrix& packed, ThreadPool& pool) {
  const PackedCodes& to = packed.codes;
  packed.memory = Arena(static_cast<size_t>(to.strips() * to.strip_bytes()));
  packed.codes.blocks = packed.memory.data();
  std::atomic<bool> fit{true};
  pool.run([&](int32_t thread) {
    const DenormalScope scope(Denormals::kKept);
    StripSource strip(to);
    const int64_t first = to.strips() * thread / pool.size();
    const int64_t last = to.strips() * (thread + 1) / pool.size();
    for (int64_t s = first; s < last && fit.load(std::memory_order_relaxed); ++s) {
      strip.read(matrix, to, s);
      if (!fits(to.scale_type, strip.scales) || !fits(to.scale_type, strip.biases)) fit.store(false);
      write_strip(strip, to, s, packed.memory.data());
    }
  });
  return fit.load();
}

/// True when dequantised rows are exactly bfloat16, judged by one row.
bool rows_fit_bf16(const quant::Matrix& matrix) {
  std::vector<float> row(static_cast<size_t>(matrix.cols));
  for (const int64_t at : {int64_t{0}, matrix.rows / 2, matrix.rows - 1}) {
    matrix.format->dequantize(matrix, at, row);
    if (!fits(ScaleType::kBF16, row)) return false;
  }
  return true;
}

/// Dequantises every row. False when a value did not fit bfloat16.
bool pack_dense(const quant::Matrix& matrix, PackedMatrix& packed, ThreadPool& pool) {
  const bool narrow = packed.dense.type == DenseType::kBF16;
  const size_t row_bytes = static_cast<size_t>(packed.unit_bytes());
  packed.memory = Arena(row_bytes * static_cast<size_t>(matrix.rows));
  packed.dense.data = packed.memory.data();
  std::atomic<bool> fit{true};
  pool.run([&](int32_t thread) {
    const DenormalScope scope(Denormals::kKept);
    std::vector<float> row(static_cast<size_t>(matrix.cols));
    const int64_t last = matrix.rows * (thread + 1) / pool.size();
    for (int64_t r = matrix.rows * thread / pool.size(); r < last; ++r) {
      matrix.format->dequantize(matrix, r, row);
      uint8_t* at = packed.memory.data() + static_cast<size_t>(r) * row_bytes;
      if (!narrow) {
        std::memcpy(at, row.data(), row_bytes);
        continue;
      }
      if (!fits(ScaleType::kBF16, row)) fit.store(false);
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
  const bool dense = matrix.group_size == 0 && matrix.bits == 0;
  const bool plain =
      dtype == tensor::DType::kF32 || dtype == tensor::DType::kF16 || dtype == tensor::DType::kBF16;
  const size_t bytes = static_cast<size_t>(matrix.rows * matrix.cols) * tensor::size_bytes(dtype);
  if (!dense || !plain || matrix.codes.bytes.size() != bytes) return false;
  type = dtype == tensor::DType::kF32   ? DenseType::kF32
         : dtype == tensor::DType::kF16 ? DenseType::kF16
                                        : DenseType::kBF16;
  return true;
}

}  // namespace

PackedMatrix plan_packing(const quant::Matrix& matrix, const std::string& name) {
  PackedMatrix packed;
  if (matrix.format == nullptr || matrix.rows <= 0 || matrix.cols <= 0)
    throw base::Error(base::Code::kUnsupported, "[exec.cpu.weight] " + name + ": expected a stored matrix");
  if (matrix.format->integer_codes(matrix)) {
    const int group = matrix.format->code_group(matrix), bits = matrix.format->code_bits(matrix);
    const bool known = group == 16 || group == 32 || group == 64 || group == 128;
    if (known && matrix.cols % group == 0 && bits >= 1 && bits <= 8) {
      packed.integer = true;
      packed.codes = {.rows = matrix.rows,
                      .cols = matrix.cols,
                      .group = group,
                      .code_bits = bits,
                      .width = bits <= 4 ? CodeWidth::kFour : CodeWidth::kEight};
      packed.codes.scale_type = guess_scale_type(matrix, packed.codes);
      return packed;
    }
  }
  packed.dense = {.rows = matrix.rows, .cols = matrix.cols};
  if (stored_dense(matrix, packed.dense.type)) {
    if (matrix.codes.aligned()) {
      packed.dense.data = reinterpret_cast<const uint8_t*>(matrix.codes.bytes.data());
      if (!matrix.row_order.empty()) packed.dense.row_order = matrix.row_order.data();
    }
    return packed;
  }
  packed.dense.type = rows_fit_bf16(matrix) ? DenseType::kBF16 : DenseType::kF32;
  return packed;
}

size_t packed_bytes(const PackedMatrix& planned) {
  return static_cast<size_t>(planned.units() * planned.unit_bytes());
}

PackedMatrix pack(const quant::Matrix& matrix, const std::string& name, ThreadPool& pool,
                  const MappedPages& pages) {
  PackedMatrix packed = plan_packing(matrix, name);
  if (packed.integer) {
    if (!pack_codes(matrix, packed, pool)) {
      packed.codes.scale_type = ScaleType::kF32;
      pack_codes(matrix, packed, pool);
    }
  } else if (packed.dense.data != nullptr) {
    return packed;
  } else if (!pack_dense(matrix, packed, pool)) {
    packed.dense.type = DenseType::kF32;
    pack_dense(matrix, packed, pool);
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
