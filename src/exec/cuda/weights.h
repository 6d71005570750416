// Moves weight matrices onto the device, repacked into tiles. Loader thread.
#pragma once

#include <string>
#include <vector>

#include "exec/cuda/device.h"
#include "exec/cuda/tile_shape.h"
#include "ops/weight.h"

namespace penstock::exec::cuda {

/// How this executor keeps a matrix. Throws Error(kUnsupported) for what it cannot keep.
TileClass class_of(const quant::Matrix& matrix, bool exact);

struct DeviceMatrix {
  Memory memory;
  TileMatrix tiles;
};

/// Several matrices of one class as one: rows below each other, or (interleaved) 8 rows of the first and 8 of
/// the second in turn.
struct Stack {
  std::vector<const quant::Matrix*> parts;
  bool interleaved = false;

  int64_t rows() const;  // padded to whole tiles where interleaved
  int64_t cols() const { return parts.front()->cols; }
};

class WeightLoader {
 public:
  explicit WeightLoader(bool exact) : exact_(exact) {}

  DeviceMatrix load(const Stack& stack);

  /// A vector plus `offset` in every element.
  Memory load_vector(const quant::Matrix& matrix, float offset = 0);

 private:
  void pack(const Stack& stack, DeviceMatrix& out);
  void fill(const Stack& stack, const TileMatrix& tiles, int64_t first_row, int64_t n_rows);

  bool exact_;
  Memory host_, device_;
};

}  // namespace penstock::exec::cuda
