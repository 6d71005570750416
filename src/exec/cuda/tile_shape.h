// How a weight matrix lies on the device: tiles of 16 rows in the order in which tensor-core fragments want
// them, cut into slices of columns whose sums are added in order. Fixed by the matrix alone, so that the
// order of every sum is too. Plain data, host and device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::exec::cuda {

inline constexpr int32_t kTileRows = 16;
inline constexpr int32_t kGroupCols = 64;      // columns that a step of a kernel takes
inline constexpr int32_t kChunkGroups = 8;     // groups of a chunk, at most: whole slots
inline constexpr int32_t kPassRows = 64;       // activation rows of one multiplication, at most
inline constexpr int32_t kNoExponent = -1000;  // of a row of zeros

enum class TileKind : uint8_t {
  kFour,   // codes 0..15, a scale and a bias in float16 for each group
  kEight,  // codes 0..255, likewise
  kHalf,   // float16 values under one scale of the matrix
  kFloat,  // float32 values, [rows, cols]: exact mode
};

struct TileClass {
  TileKind kind = TileKind::kHalf;
  int32_t group = 64;  // columns that share a scale: 16, 32 or 64

  bool operator==(const TileClass&) const = default;
};

/// Groups of 64 columns in a slot, at most.
constexpr int32_t most_slot_groups(TileKind kind) {
  return kind == TileKind::kFour ? 4 : kind == TileKind::kEight ? 2 : 1;
}

struct TileShape {
  TileClass of;
  int32_t rows = 0, cols = 0;
  int32_t tiles = 0;         // of 16 rows
  int32_t block_tiles = 1;   // that lie together, slot by slot
  int32_t slices = 1;        // of columns
  int32_t chunks = 1;        // of a slice
  int32_t chunk_groups = 1;  // groups of 64 columns in a chunk
  int32_t slot_groups = 1;   // groups that one copy to shared memory takes
  int32_t slots = 1;         // of a chunk
  int32_t scale_groups = 0;  // in 64 columns; 0 for kHalf and kFloat
  int32_t slot_bytes = 0;

  bool operator==(const TileShape&) const = default;

  constexpr int32_t slot_scales() const { return slot_groups * scale_groups; }  // groups in a slot
  /// Columns whose activations are summed for the biases: a scale group, or half of one of 64.
  constexpr int32_t sum_cols() const { return of.group < 32 ? of.group : 32; }
  constexpr int32_t slot_sums() const {
    return scale_groups == 0 ? 0 : slot_groups * kGroupCols / sum_cols();
  }
  /// Tensor-core steps that add the biases of a slot: 8 sums each.
  constexpr int32_t bias_steps() const { return (slot_sums() + 7) / 8; }
  constexpr int32_t code_bytes() const {  // of 16 rows and 64 columns
    return of.kind == TileKind::kFour ? 512 : of.kind == TileKind::kEight ? 1024 : 2048;
  }
  constexpr int32_t slice_slots() const { return chunks * slots; }
  constexpr int32_t padded_rows() const { return tiles * kTileRows; }
  constexpr int32_t padded_cols() const { return slices * chunks * chunk_groups * kGroupCols; }
  constexpr size_t bytes() const {
    if (of.kind == TileKind::kFloat) return size_t{4} * static_cast<size_t>(rows) * static_cast<size_t>(cols);
    return static_cast<size_t>(tiles) * static_cast<size_t>(slices * chunks * slots) *
           static_cast<size_t>(slot_bytes);
  }
};

/// Activations of the columns of one slot for 8 * column_tiles rows: for each 32 columns, 8 rows of 64 bytes
/// a column tile, 16-byte pieces swapped as warpgroup instructions want it; then the sums of sum_cols() of
/// them in float16 pairs (2^-14 of the sum, and what its rounding lost) as fragments for the biases. 4-bit
/// codes of columns 8 to 15 of 16 come out 16 times as large, so activations there are stored divided by 16.
/// A row is under one power of two, whose exponent lies elsewhere. No column tiles: a single row, 64 bytes
/// for each 32 columns and the sums of that row alone.
struct ActivationSlot {
  int32_t fragment_bytes = 0, sum_bytes = 0, bytes = 0;

  constexpr ActivationSlot(const TileShape& shape, int32_t column_tiles)
      : fragment_bytes(shape.slot_groups * (column_tiles == 0 ? 128 : column_tiles * 1024)),
        sum_bytes(shape.bias_steps() * (column_tiles == 0 ? 32 : column_tiles * 256)),
        bytes(fragment_bytes + sum_bytes) {}
};

/// A matrix on the device.
struct TileMatrix {
  TileShape shape;
  const uint8_t* data = nullptr;
  float factor = 1;  // of every element, a power of two
};

/// The layout of a matrix of this class. `whole`: one slice, since the products are used at once.
TileShape make_shape(TileClass of, int64_t rows, int64_t cols, bool whole = false);

}  // namespace penstock::exec::cuda
