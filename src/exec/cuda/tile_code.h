// Reading tiles on the device: fragments for the tensor cores, and single elements. The packing kernel writes
// by the same index functions.
#pragma once

#include "exec/cuda/device_code.h"
#include "exec/cuda/tile_shape.h"

namespace penstock::exec::cuda {

/// Fragments of 16 rows and 64 columns in float16: values (kHalf), or 2^-24 of the codes (their bits are the
/// code's), 2^-20 of 4-bit ones in columns 8 to 15 of 16.
template <TileKind K>
__device__ inline void read_fragments(const uint8_t* codes, int lane, uint32_t (&a)[4][4]) {
  if constexpr (K == TileKind::kFour) {
    const uint4 words = reinterpret_cast<const uint4*>(codes)[lane];
    const uint32_t word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const uint32_t high = word[step] >> 8;
      a[step][0] = word[step] & 0x000f000fu;
      a[step][1] = high & 0x000f000fu;
      a[step][2] = word[step] & 0x00f000f0u;
      a[step][3] = high & 0x00f000f0u;
    }
  } else if constexpr (K == TileKind::kEight) {
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      const uint4 words = reinterpret_cast<const uint4*>(codes)[pair * 32 + lane];
      const uint32_t word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          a[pair * 2 + half][i * 2] = __byte_perm(word[half * 2 + i], 0, 0x4140);
          a[pair * 2 + half][i * 2 + 1] = __byte_perm(word[half * 2 + i], 0, 0x4342);
        }
    }
  } else {
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const uint4 words = reinterpret_cast<const uint4*>(codes)[step * 32 + lane];
      a[step][0] = words.x;
      a[step][1] = words.y;
      a[step][2] = words.z;
      a[step][3] = words.w;
    }
  }
}

/// Scales are stored as 2^10 of their values: products of codes are 2^-24 of what they are, sums of
/// activations 2^-14.
inline constexpr float kScaleUp = 1024.0f, kSumDown = 0x1p-14f;

/// Activations of 32 columns: bytes of 8 rows (column_tiles 0: of one), and of 16-byte piece `piece` of a
/// row.
constexpr int32_t activation_tile_bytes(int32_t column_tiles) {
  return column_tiles == 0 ? 64 : 512;
}
__device__ inline int32_t activation_piece(int32_t row, int32_t piece) {
  return row * 64 + (piece ^ (row / 2)) * 16;
}

/// Tiles of the block that begins with this one: the last block is shorter.
__host__ __device__ inline int32_t tiles_of_block(const TileShape& shape, int32_t first_tile) {
  const int32_t left = shape.tiles - first_tile;
  return left < shape.block_tiles ? left : shape.block_tiles;
}

/// Where one element lies within the slot of its tile.
struct ElementPlace {
  size_t slot;       // index of the slot in the matrix
  int32_t group;     // of 64 columns within the slot
  int32_t row, col;  // 0-15 within the tile, 0-63 within the group

  __host__ __device__ ElementPlace(const TileShape& shape, int32_t matrix_row, int32_t matrix_col) {
    const int32_t all = matrix_col / kGroupCols, column_slot = all / shape.slot_groups;
    const int32_t slice = column_slot / shape.slice_slots(), tile = matrix_row / kTileRows;
    const int32_t first_tile = tile / shape.block_tiles * shape.block_tiles;
    const int32_t here = tiles_of_block(shape, first_tile);
    slot = static_cast<size_t>(slice * shape.tiles + first_tile) * static_cast<size_t>(shape.slice_slots()) +
           static_cast<size_t>(column_slot % shape.slice_slots() * here + tile - first_tile);
    group = all % shape.slot_groups;
    row = matrix_row % kTileRows;
    col = matrix_col % kGroupCols;
  }

  /// Lane that holds the element, and which of the lane's 32 elements of the group it is: k step, register
  /// of the fragment, half of the register.
  __host__ __device__ int32_t lane() const { return row % 8 * 4 + col % 8 / 2; }
  __host__ __device__ int32_t step() const { return col / 16; }
  __host__ __device__ int32_t fragment() const { return row / 8 + col % 16 / 8 * 2; }

  /// Byte of the code or value within the slot. A 4-bit code takes nibble nibble() of the 32-bit word there.
  __host__ __device__ int32_t byte(const TileShape& shape) const {
    const int32_t base = group * shape.code_bytes();
    if (shape.of.kind == TileKind::kFour) return base + lane() * 16 + step() * 4;
    if (shape.of.kind == TileKind::kEight) {
      return base + (step() / 2 * 32 + lane()) * 16 + step() % 2 * 8 + fragment() / 2 * 4 +
             fragment() % 2 * 2 + col % 2;
    }
    return base + (step() * 32 + lane()) * 16 + fragment() * 4 + col % 2 * 2;
  }
  __host__ __device__ int32_t nibble() const { return (fragment() % 2) * 2 + fragment() / 2 + col % 2 * 4; }

  /// Bytes of the scale (kScaleUp times it) and of the bias within the slot.
  __host__ __device__ int32_t scale_group(const TileShape& shape) const {
    return group * shape.scale_groups + col / shape.of.group;
  }
  __host__ __device__ int32_t scale_byte(const TileShape& shape) const {
    return shape.slot_groups * shape.code_bytes() + ((scale_group(shape) * 8 + row % 8) * 2 + row / 8) * 2;
  }
  __host__ __device__ int32_t bias_byte(const TileShape& shape) const {
    const int32_t g = scale_group(shape);
    return shape.slot_groups * shape.code_bytes() + shape.slot_scales() * 32 +
           ((g / 2 * 8 + row % 8) * 4 + row / 8 * 2 + g % 2) * 2;
  }
};

/// One element, in float32.
__device__ inline float read_element(const TileMatrix& matrix, int32_t row, int32_t col) {
  const TileShape& shape = matrix.shape;
  if (shape.of.kind == TileKind::kFloat) {
    const auto at = static_cast<size_t>(row) * static_cast<size_t>(shape.cols) + static_cast<size_t>(col);
    return reinterpret_cast<const float*>(matrix.data)[at];
  }
  const ElementPlace place(shape, row, col);
  const uint8_t* slot = matrix.data + place.slot * static_cast<size_t>(shape.slot_bytes);
  const uint8_t* at = slot + place.byte(shape);
  if (shape.of.kind == TileKind::kHalf)
    return __half2float(*reinterpret_cast<const half*>(at)) * matrix.factor;
  const uint32_t code = shape.of.kind == TileKind::kEight
                            ? *at
                            : *reinterpret_cast<const uint32_t*>(at) >> (place.nibble() * 4) & 15u;
  const float scale = __half2float(*reinterpret_cast<const half*>(slot + place.scale_byte(shape))) / kScaleUp;
  const float bias = __half2float(*reinterpret_cast<const half*>(slot + place.bias_byte(shape)));
  return fmaf(scale, static_cast<float>(code), bias) * matrix.factor;
}

}  // namespace penstock::exec::cuda
