// Rows of activations as the kernels read them: float32, and integers for each group size that some weight
// asks for. One set shared by all threads, and a small private one for each thread, which is cheaper to fill
// than to wait for when a step has few tokens.
#pragma once

#include <array>
#include <vector>

#include "exec/cpu/arena.h"
#include "exec/cpu/kernels.h"
#include "exec/cpu/packed_matrix.h"

namespace penstock::exec::cpu {

/// Set of group sizes 16, 32, 64, 128 as bits 0..3.
using GroupSet = uint32_t;

constexpr int group_index(int32_t group) {
  return group == 16 ? 0 : group == 32 ? 1 : group == 64 ? 2 : 3;
}

class ActivationRows {
 public:
  ActivationRows() = default;
  ActivationRows(int32_t max_rows, int64_t max_cols, GroupSet groups);

  /// Views of m rows of `cols` columns.
  FloatRows floats(int32_t m, int64_t cols) const { return {floats_.data(), cols, m}; }
  float* row(int64_t m, int64_t cols) const { return floats_.data() + m * cols; }
  QuantRows quantized(int32_t group, int32_t m, int64_t cols) const;

  /// Quantises columns [first, last) of row m of `x` [last - first] for every group size of the set.
  void quantize(const Kernels& kernels, GroupSet groups, const float* x, int64_t m, int64_t cols,
                Range columns) const;

  size_t bytes() const;

 private:
  struct Quantized {
    Array<int8_t> codes;
    Array<float> scales, sums;
    Array<int32_t> code_sums;
  };

  Array<float> floats_;
  std::array<Quantized, 4> quantized_;
};

/// The group sizes that these matrices want; none in exact mode.
GroupSet groups_of(std::initializer_list<const PackedMatrix*> matrices, bool exact);

}  // namespace penstock::exec::cpu
