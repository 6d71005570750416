// A stored matrix as the kernels want it: integer codes repacked into strips, dense rows where they lie in
// the file or copied. Made by the loader thread and the pool, then read-only. Owns no memory.
#pragma once

#include <string>
#include <vector>

#include "exec/cpu/arena.h"
#include "exec/cpu/kernels.h"
#include "exec/cpu/thread_pool.h"
#include "quant/matrix.h"

namespace penstock::exec::cpu {

struct PackedMatrix {
  bool integer = false;  // codes in strips, E4M3 numbers among them
  PackedCodes codes;     // integer
  DenseMatrix dense;     // otherwise

  int64_t rows() const { return integer ? codes.rows : dense.rows; }
  int64_t cols() const { return integer ? codes.cols : dense.cols; }

  /// Columns that share a scale of quantised activations; 0 where the kernel wants float32.
  int32_t group() const { return integer && codes.layout != CodeLayout::kFp8 ? codes.group : 0; }

  /// What a thread's share is counted in, strips or rows, and the bytes of one.
  int64_t units() const { return integer ? codes.strips() : dense.rows; }
  int64_t unit_rows() const { return integer ? kStripRows : 1; }
  int64_t unit_bytes() const {
    return integer ? codes.strip_bytes() : dense.cols * (dense.type == DenseType::kF32 ? 4 : 2);
  }
};

/// How pack() will lay out the matrix, with no memory yet. `name` is for errors.
/// Throws Error(kUnsupported) for a matrix that no kernel takes.
PackedMatrix plan_packing(const quant::Matrix& matrix, const std::string& name);

/// Bytes that the packed matrix takes in memory, those read from the mapping included.
size_t packed_bytes(const PackedMatrix& planned);

/// Repacks into `slabs` on all threads of the pool, then gives the mapping's pages back.
PackedMatrix pack(const quant::Matrix& matrix, const std::string& name, ThreadPool& pool,
                  const MappedPages& pages, Slabs& slabs);

/// All of a matrix of one row as float32.
std::vector<float> read_vector(const quant::Matrix& matrix);

}  // namespace penstock::exec::cpu
