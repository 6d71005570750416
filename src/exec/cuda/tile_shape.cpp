#include "exec/cuda/tile_shape.h"

#include <algorithm>

namespace penstock::exec::cuda {
namespace {

constexpr int32_t kMultiprocessors = 132;  // the layout is made for; part of the arithmetic, so not asked for

int32_t ceil_div(int32_t a, int32_t b) {
  return (a + b - 1) / b;
}

/// Share of the multiprocessors that `units` pieces of equal work keep busy.
double fill(int32_t units) {
  return static_cast<double>(units) / (ceil_div(units, kMultiprocessors) * kMultiprocessors);
}

int32_t padded_groups(int32_t groups, int32_t slices) {
  const int32_t slice = ceil_div(groups, slices), chunks = ceil_div(slice, kChunkGroups);
  return slices * chunks * ceil_div(slice, chunks);
}

/// More slices spread few rows over the device but cost a write and a read of each sum.
int32_t choose_slices(int32_t rows, int32_t groups) {
  int32_t best = 1;
  double best_score = -1;
  for (const int32_t slices : {1, 2, 3, 4, 6, 8}) {
    if (slices > 1 && groups < 4 * slices) break;
    const double busy = std::max(fill(ceil_div(rows, 192) * slices), fill(ceil_div(rows, 256) * slices));
    const double score = busy * groups / padded_groups(groups, slices) - 0.02 * slices;
    if (score > best_score) {
      best = slices;
      best_score = score;
    }
  }
  return best;
}

/// 16 tiles, or 12 where that keeps more of the multiprocessors busy.
int32_t choose_block_tiles(int32_t tiles, int32_t slices) {
  return fill(ceil_div(tiles, 12) * slices) > fill(ceil_div(tiles, 16) * slices) ? 12 : 16;
}

}  // namespace

TileShape make_shape(TileClass of, int64_t rows, int64_t cols, bool whole) {
  TileShape shape;
  shape.of = of;
  shape.rows = static_cast<int32_t>(rows);
  shape.cols = static_cast<int32_t>(cols);
  shape.tiles = ceil_div(shape.rows, kTileRows);
  const int32_t groups = ceil_div(shape.cols, kGroupCols);
  shape.slices = whole ? 1 : choose_slices(shape.rows, groups);
  shape.block_tiles = choose_block_tiles(shape.tiles, shape.slices);
  const int32_t slice_groups = ceil_div(groups, shape.slices);
  shape.chunks = ceil_div(slice_groups, kChunkGroups);
  shape.chunk_groups = ceil_div(slice_groups, shape.chunks);
  for (int32_t n = 1; n <= most_slot_groups(of.kind); ++n)
    if (shape.chunk_groups % n == 0) shape.slot_groups = n;
  shape.slots = shape.chunk_groups / shape.slot_groups;
  if (of.kind == TileKind::kFour || of.kind == TileKind::kEight) shape.scale_groups = kGroupCols / of.group;
  // A scale takes 2 bytes for each of 16 rows; biases lie in pairs of groups.
  const int32_t scales = shape.slot_scales() * 32 + (shape.slot_scales() + 1) / 2 * 64;
  shape.slot_bytes = shape.slot_groups * shape.code_bytes() + scales;
  return shape;
}

}  // namespace penstock::exec::cuda
