// Packed matrices against what their format says: every code, scale and bias is there, exactly, in as few
// bytes as the format needs.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "exec/cpu/kernels_scalar.h"
#include "exec/cpu/packed_matrix.h"
#include "quant/format.h"
#include "quant/format_list.h"
#include "quant/quantize.h"

namespace penstock::exec::cpu {
namespace {

constexpr int64_t kRows = 21, kCols = 512;

/// A stored matrix with the memory behind it.
struct Stored {
  quant::Matrix matrix;
  std::vector<tensor::OwnedTensor> tensors;
};

struct GgufCase {
  std::string format;
  int block_columns, block_bytes;
  std::vector<int> halves;  // offsets of half precision numbers within a block
  double packed_bits;       // for each weight
};

const std::vector<GgufCase> kGguf = {
    {"q4_0", 32, 18, {0}, 4.5},        {"q4_1", 32, 20, {0, 2}, 5},       {"q5_0", 32, 22, {0}, 5.5},
    {"q5_1", 32, 24, {0, 2}, 6},       {"q8_0", 32, 34, {0}, 8.5},        {"q2_K", 256, 84, {80, 82}, 2.625},
    {"q3_K", 256, 110, {108}, 3.5625}, {"q4_K", 256, 144, {0, 2}, 4.625}, {"q5_K", 256, 176, {0, 2}, 5.625},
    {"q6_K", 256, 210, {208}, 6.5625},
};

tensor::OwnedTensor bytes_of(size_t n) {
  return {"w", tensor::DType::kU8, {static_cast<int64_t>(n)}, std::vector<std::byte>(n)};
}

Stored stored_gguf(const GgufCase& c) {
  Stored out;
  const auto blocks = static_cast<size_t>(kRows * kCols / c.block_columns);
  out.tensors.push_back(bytes_of(blocks * static_cast<size_t>(c.block_bytes)));
  std::vector<std::byte>& bytes = out.tensors[0].bytes;
  std::mt19937 random(7);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (size_t b = 0; b < blocks; ++b)
    for (const int at : c.halves) {
      const uint16_t half = tensor::f32_to_f16(0.001f * static_cast<float>(1 + random() % 100));
      std::memcpy(&bytes[b * static_cast<size_t>(c.block_bytes) + static_cast<size_t>(at)], &half, 2);
    }
  out.matrix.format = quant::find_format(c.format);
  out.matrix.rows = kRows;
  out.matrix.cols = kCols;
  out.matrix.codes = {tensor::DType::kU8, {static_cast<int64_t>(bytes.size())}, bytes};
  return out;
}

tensor::View view_of(const tensor::OwnedTensor& t) {
  return {t.dtype, t.shape, t.bytes};
}

Stored stored_mlx(const quant::Params& params, tensor::DType dtype) {
  tensor::OwnedTensor dense = {"w", dtype, {kRows, kCols}, {}};
  dense.bytes.resize(static_cast<size_t>(kRows * kCols) * tensor::size_bytes(dtype));
  std::mt19937 random(3);
  std::normal_distribution<float> draw(0, 0.1f);
  for (size_t i = 0; i < static_cast<size_t>(kRows * kCols); ++i) {
    const float value = draw(random);
    const uint16_t half =
        dtype == tensor::DType::kF16 ? tensor::f32_to_f16(value) : tensor::f32_to_bf16(value);
    if (dtype == tensor::DType::kF32)
      std::memcpy(&dense.bytes[4 * i], &value, 4);
    else
      std::memcpy(&dense.bytes[2 * i], &half, 2);
  }
  Stored out;
  out.tensors = quant::quantize(view_of(dense), params, "w");
  out.matrix.format = quant::find_format(params.mode);
  out.matrix.rows = kRows;
  out.matrix.cols = kCols;
  out.matrix.bits = params.bits;
  out.matrix.group_size = params.group_size;
  out.matrix.codes = view_of(out.tensors[0]);
  out.matrix.scales = view_of(out.tensors[1]);
  if (out.tensors.size() > 2) out.matrix.biases = view_of(out.tensors[2]);
  return out;
}

PackedMatrix packed(const Stored& stored, Slabs& slabs) {
  ThreadPool pool(2);
  return pack(stored.matrix, "w", pool, MappedPages(), slabs);
}

/// The value of every weight as the exact kernels compute it. With float32 scales the product may be rounded
/// where it is not here.
void expect_same_values(const Stored& stored, const PackedMatrix& packed) {
  const PackedCodes& w = packed.codes;
  std::vector<float> row(static_cast<size_t>(kCols));
  for (int64_t r = 0; r < kRows; ++r) {
    stored.matrix.format->dequantize(stored.matrix, r, row);
    const uint8_t* strip = w.blocks + r / kStripRows * w.strip_bytes();
    const auto lane = static_cast<int>(r % kStripRows);
    for (int64_t c = 0; c < kCols; ++c) {
      const uint8_t* block = strip + c / w.block_cols() * w.block_bytes();
      const auto column = static_cast<int>(c % w.block_cols());
      const int group = column / w.group;
      const float code =
          w.layout == CodeLayout::kFp8
              ? number_at(w, block, lane, column)
              : static_cast<float>(code_at(w, block, lane, column) - (w.has_bias() ? 0 : w.zero));
      float value = code * scale_at(w, block, group, lane);
      if (w.has_bias()) value += bias_at(w, block, group, lane);
      const float expected = row[static_cast<size_t>(c)];
      if (w.scale_type == ScaleType::kF32)
        ASSERT_NEAR(value, expected, 1e-6) << "row " << r << ", column " << c;
      else
        ASSERT_EQ(value, expected) << "row " << r << ", column " << c;
    }
  }
}

double bits_of(const PackedMatrix& packed) {
  return 8.0 * static_cast<double>(packed.codes.strip_bytes()) / (kStripRows * kCols);
}

TEST(Packing, HoldsEveryGgufFormatExactly) {
  Slabs slabs;
  for (const GgufCase& c : kGguf) {
    SCOPED_TRACE(c.format);
    const Stored stored = stored_gguf(c);
    const PackedMatrix matrix = packed(stored, slabs);
    ASSERT_TRUE(matrix.integer);
    EXPECT_EQ(bits_of(matrix), c.packed_bits);
    expect_same_values(stored, matrix);
  }
}

TEST(Packing, HoldsEveryMlxFormatExactly) {
  Slabs slabs;
  for (const tensor::DType dtype : {tensor::DType::kF16, tensor::DType::kBF16, tensor::DType::kF32})
    for (const int group : {32, 64, 128})
      for (const int bits : {2, 3, 4, 5, 6, 8}) {
        SCOPED_TRACE(std::to_string(bits) + " bits, group " + std::to_string(group));
        const Stored stored = stored_mlx({"affine", group, bits}, dtype);
        const PackedMatrix matrix = packed(stored, slabs);
        ASSERT_TRUE(matrix.integer);
        const double scale_bits = dtype == tensor::DType::kF32 ? 64 : 32;
        const double zero_bits = matrix.codes.has_bias() ? 0 : scale_bits / 2;  // biases that scales imply
        EXPECT_EQ(bits_of(matrix), bits + (scale_bits - zero_bits) / group);
        expect_same_values(stored, matrix);
      }
  for (const quant::Params& params : {quant::Params{"mxfp4", 32, 4}, quant::Params{"nvfp4", 16, 4}}) {
    SCOPED_TRACE(params.mode);
    Stored stored = stored_mlx(params, tensor::DType::kF32);
    EXPECT_EQ(bits_of(packed(stored, slabs)), 4 + 8.0 / params.group_size);
    expect_same_values(stored, packed(stored, slabs));
    stored.matrix.global_scale = params.mode == "nvfp4" ? 0.37f : 1;
    expect_same_values(stored, packed(stored, slabs));
  }
}

TEST(Packing, HoldsNumbersOfEightBitsInTheirBytes) {
  Slabs slabs;
  Stored stored = stored_mlx({"mxfp8", 32, 8}, tensor::DType::kF32);
  const PackedMatrix matrix = packed(stored, slabs);
  ASSERT_TRUE(matrix.integer);
  EXPECT_EQ(matrix.group(), 0);  // float32 activations
  EXPECT_EQ(bits_of(matrix), 8.25);
  expect_same_values(stored, matrix);
  // What the kernels do not read as it is: dense rows.
  stored.tensors[0].bytes[1000] = std::byte{0xff};
  EXPECT_FALSE(packed(stored, slabs).integer);
  stored.tensors[0].bytes[1000] = std::byte{1};
  for (const uint8_t scale : {0, 241, 255}) {
    stored.tensors[1].bytes[3] = std::byte{scale};
    EXPECT_FALSE(packed(stored, slabs).integer) << int{scale};
  }
}

TEST(Packing, AScaleThatTheSampleDidNotPromiseWidensAll) {
  Slabs slabs;
  Stored stored = stored_mlx({"affine", 64, 4}, tensor::DType::kF32);
  auto& scales = stored.tensors[1].bytes;
  auto& biases = stored.tensors[2].bytes;
  for (size_t i = 0; i < scales.size() / 4; ++i) {  // exact halves, with a zero point
    const float scale = 0.25f * static_cast<float>(1 + i % 7), bias = -8 * scale;
    std::memcpy(&scales[4 * i], &scale, 4);
    std::memcpy(&biases[4 * i], &bias, 4);
  }
  EXPECT_EQ(bits_of(packed(stored, slabs)), 4 + 16.0 / 64);
  const float odd = 0.1f;
  std::memcpy(&biases[4 * (10 * kCols / 64 + 3)], &odd, 4);  // row 10 is in no sampled strip but the middle
  expect_same_values(stored, packed(stored, slabs));
  std::memcpy(&scales[4 * (1 * kCols / 64)], &odd, 4);
  expect_same_values(stored, packed(stored, slabs));
}

TEST(Packing, PlainDenseRowsAreReadWhereTheyLie) {
  struct Case {
    tensor::DType dtype;
    const quant::Format* format;
    DenseType type;
  };
  for (const auto& [dtype, format, type] :
       {Case{tensor::DType::kF32, &quant::dense_f32(), DenseType::kF32},
        Case{tensor::DType::kF16, &quant::dense_f16(), DenseType::kF16},
        Case{tensor::DType::kBF16, &quant::dense_bf16(), DenseType::kBF16}}) {
    SCOPED_TRACE(tensor::name(dtype));
    alignas(64) static std::array<std::byte, 16 * 32 * 4> bytes{};
    quant::Matrix matrix;
    matrix.rows = 16;
    matrix.cols = 32;
    matrix.codes.dtype = dtype;
    matrix.codes.shape = {16, 32};
    matrix.codes.bytes = std::span(bytes).first(16 * 32 * tensor::size_bytes(dtype));
    matrix.format = format;
    matrix.bits = static_cast<int>(tensor::size_bytes(dtype)) * 8;  // as load_matrix says it
    const PackedMatrix planned = plan_packing(matrix, "w");
    EXPECT_EQ(planned.dense.type, type);
    EXPECT_EQ(static_cast<const void*>(planned.dense.data), static_cast<const void*>(bytes.data()));
  }
}

TEST(Packing, GroupsOfSixteenWithoutWholeChunksAreDense) {
  Stored stored = stored_mlx({"nvfp4", 16, 4}, tensor::DType::kF32);
  stored.matrix.cols = 48;
  EXPECT_FALSE(plan_packing(stored.matrix, "w").integer);
}

TEST(Slabs, PiecesAreZeroedAlignedAndDisjoint) {
  Slabs slabs;
  constexpr size_t kMany = size_t{70} << 20;  // more than a slab
  for (const size_t bytes : {size_t{100}, size_t{64}, kMany, size_t{5000}}) {
    uint8_t* piece = slabs.take(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 64, 0u);
    EXPECT_TRUE(std::all_of(piece, piece + bytes, [](uint8_t byte) { return byte == 0; }));
    std::memset(piece, 0xff, bytes);
  }
}

TEST(Slabs, APieceThatIsGivenBackIsZeroedAndTakenAgain) {
  Slabs slabs;
  slabs.take(100);
  uint8_t* piece = slabs.take(1000);
  std::memset(piece, 0xff, 1000);
  slabs.undo();
  EXPECT_EQ(slabs.take(2000), piece);
  EXPECT_TRUE(std::all_of(piece, piece + 2000, [](uint8_t byte) { return byte == 0; }));
}

}  // namespace
}  // namespace penstock::exec::cpu
