// Loading tensor-core fragments from rows of 16-byte pieces in shared memory. Device code.
#pragma once

#include "exec/cuda/device_code.h"

namespace penstock::exec::cuda {

__device__ inline void load_matrices(const void* at, uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(at)));
}

__device__ inline void load_transposed(const void* at, uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(at)));
}

/// 16-byte piece `piece` of row `token` of a tile of keys or values, where kv_index says.
template <int D>
__device__ inline const uint8_t* piece_at(const uint8_t* tile, int token, int piece) {
  return tile + token / 8 * D * 16 + piece / 8 * 1024 + token % 8 * 128 + (piece % 8 ^ token % 8) * 16;
}

}  // namespace penstock::exec::cuda
