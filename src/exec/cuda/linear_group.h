// The multiplication of linear_kernel.h for 17 to 64 rows on warpgroup instructions: weights as fragments in
// registers, activations read from the ring. The same sums in the same order, so the same bits. Only for
// devices of compute capability 9.0. Included by one source file for each kind of tile.
#pragma once

#include "exec/cuda/linear_kernel.h"
#include "exec/cuda/wgmma_code.h"

namespace penstock::exec::cuda {

/// A warp has one tile; the four of a warpgroup share their instructions.
template <TileKind K, int G, int NT>
struct GroupKernel {
  static constexpr int kScaleGroups = K == TileKind::kHalf ? 0 : kGroupCols / G;
  static constexpr int kSteps = K == TileKind::kHalf ? 4 : 4 / kScaleGroups;
  static constexpr int kCodeBytes = K == TileKind::kFour ? 512 : K == TileKind::kEight ? 1024 : 2048;

  float acc[NT * 4];

  __device__ void clear() {
#pragma unroll
    for (float& value : acc) value = 0;
  }

  /// As LinearKernel's; `before` in pairs of 16 bits. Exponents lie in [-30, 60], so a factor is a normal
  /// number.
  __device__ void rescale(const int32_t* now, uint32_t (&before)[NT], int t) {
#pragma unroll
    for (int n = 0; n < NT; ++n) {
      const int2 pair = reinterpret_cast<const int2*>(now)[n * 4 + t];
      int32_t exponents[2] = {pair.x, pair.y};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int32_t old = exponent_at(before[n], i);
        exponents[i] = exponents[i] == kNoExponent ? old : exponents[i];
        const int32_t by = old == kNoExponent ? 0 : old - exponents[i];
        const float factor = __int_as_float((by + 127) << 23);
        acc[n * 4 + i] *= factor;
        acc[n * 4 + i + 2] *= factor;
      }
      before[n] =
          __byte_perm(static_cast<uint32_t>(exponents[0]), static_cast<uint32_t>(exponents[1]), 0x5410);
    }
  }

  static constexpr uint32_t kNone = 0xfc18fc18u;  // kNoExponent twice
  static_assert(static_cast<int16_t>(kNone & 0xffff) == kNoExponent);
  __device__ static int32_t exponent_at(uint32_t pair, int i) {
    return static_cast<int16_t>(i == 0 ? pair & 0xffff : pair >> 16);
  }

  /// Starts the sums of scale group s of a group of 64 columns; `fragments`: descriptor of its activations.
  __device__ void start(float (&raw)[NT * 4], const uint32_t (&a)[4][4], int s, uint64_t fragments,
                        const float* offsets) {
#pragma unroll
    for (int n = 0; n < NT; ++n) {
      const float2 offset = reinterpret_cast<const float2*>(offsets)[(s * NT + n) * 4 + threadIdx.x % 4];
      raw[n * 4] = raw[n * 4 + 2] = offset.x;
      raw[n * 4 + 1] = raw[n * 4 + 3] = offset.y;
    }
    wgmma_fence();
#pragma unroll
    for (int k = s * kSteps; k < (s + 1) * kSteps; ++k)
      wgmma_registers<NT * 8>(raw, a[k], at_step(fragments, k));
    wgmma_commit();
  }

  __device__ void add_scaled(const float (&raw)[NT * 4], float2 scale) {
#pragma unroll
    for (int i = 0; i < NT * 4; ++i) acc[i] = fmaf(raw[i], i % 4 < 2 ? scale.x : scale.y, acc[i]);
  }

  /// 16 columns on: 32 bytes within 64, or the next 32 columns.
  __device__ static uint64_t at_step(uint64_t fragments, int k) {
    return fragments + static_cast<uint64_t>((k / 2 * NT * kActivationTileBytes + k % 2 * 32) / 16);
  }

  __device__ void add_biases(const uint8_t* slot, int32_t groups, const uint8_t* sums) {
    const int lane = threadIdx.x % 32;
    const int32_t scales = groups * kScaleGroups;
    for (int32_t i = 0; i < (scales + 7) / 8; ++i) {
      const int32_t pair = i * 4 + lane % 4;
      uint2 bias = {0, 0};
      if (pair * 2 < scales)
        bias = reinterpret_cast<const uint2*>(slot + groups * kCodeBytes + scales * 32)[pair * 8 + lane / 4];
      const uint32_t a[4] = {bias.x, bias.y, bias.x, bias.y};
#pragma unroll
      for (int n = 0; n < NT; ++n) {
        const uint2 b = reinterpret_cast<const uint2*>(sums)[(i * NT + n) * 32 + lane];
        mma(reinterpret_cast<float(&)[4]>(acc[n * 4]), a, b.x, b.y);
      }
    }
  }

  template <int GROUPS>
  __device__ void slot(const uint8_t* tile, const TileShape& shape, const ActivationSlot& record,
                       const uint8_t* x) {
    const int lane = threadIdx.x % 32;
    const int32_t groups = GROUPS > 0 ? GROUPS : shape.slot_groups;
    const auto* offsets = reinterpret_cast<const float*>(x + record.fragment_bytes);
    const auto* scales = reinterpret_cast<const half2*>(tile + groups * kCodeBytes) + lane / 4;
    uint64_t fragments = activation_descriptor(shared_address(x));
#pragma unroll(GROUPS == 0 ? 1 : GROUPS)
    for (int32_t group = 0; group < groups; ++group) {
      uint32_t a[4][4];
      read_fragments<K>(tile + group * kCodeBytes, lane, a);
      if constexpr (K == TileKind::kHalf) {
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < 4; ++k) wgmma_registers<NT * 8>(acc, a[k], at_step(fragments, k));
        wgmma_commit();
        wgmma_wait<0>();
      } else {
#pragma unroll
        for (int s = 0; s < kScaleGroups; ++s) {
          float raw[NT * 4];
          start(raw, a, s, fragments, offsets + group * kScaleGroups * NT * 8);
          const float2 scale = __half22float2(scales[(group * kScaleGroups + s) * 8]);
          wgmma_wait<0>();
          add_scaled(raw, scale);
        }
      }
      fragments += static_cast<uint64_t>(NT * 1024 / 16);
    }
    if constexpr (K != TileKind::kHalf)
      add_biases(tile, groups, x + record.fragment_bytes + record.offset_bytes);
  }

  /// out: [rows, width] of the slice.
  __device__ void store(float* out, const LinearArguments& a, int32_t tile, const uint32_t (&exponents)[NT]) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int32_t width = a.shape.padded_rows();
    if (tile * kTileRows >= width) return;
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (n * 8 + t * 2 + i >= a.rows) continue;
        const int32_t exponent = exponent_at(exponents[n], i);
        const float scale = exp2f(static_cast<float>(exponent == kNoExponent ? 0 : exponent)) * a.factor;
        float* row = out + static_cast<size_t>(n * 8 + t * 2 + i) * width + tile * kTileRows + g;
        row[0] = acc[n * 4 + i] * scale;
        row[8] = acc[n * 4 + i + 2] * scale;
      }
  }
};

template <TileKind K, int G, int NT, int WARPS>
__global__ void __launch_bounds__(WARPS * 32 + 32, 1) linear_groups(const LinearArguments a) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ uint64_t full[kMaxStages], empty[kMaxStages];
  uint8_t* data = shared + ((1024 - (shared_address(shared) & 1023)) & 1023);
  const TileShape& shape = a.shape;
  const ActivationSlot record(shape, NT);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const SlotRing ring{data, full, empty, a.stage_bytes, record.bytes};
  const auto first = static_cast<int32_t>(int64_t{a.units} * blockIdx.x / gridDim.x);
  const auto last = static_cast<int32_t>(int64_t{a.units} * (blockIdx.x + 1) / gridDim.x);
  if (threadIdx.x < kMaxStages) {
    barrier_init(&full[threadIdx.x]);
    barrier_init(&empty[threadIdx.x], WARPS);
    barrier_fence();
  }
  __syncthreads();
  allow_next();
  if (warp == WARPS) {
    if (lane == 0) fill_ring(a, ring, first, last);
    return;
  }

  constexpr int kSlotGroups = most_slot_groups(K);
  GroupKernel<K, G, NT> kernel;
  uint32_t exponents[NT];
  RingCursor cursor;
  int32_t slice = first / a.row_blocks, block = first % a.row_blocks;
  for (int32_t unit = first; unit < last; ++unit) {
    kernel.clear();
#pragma unroll
    for (uint32_t& exponent : exponents) exponent = kernel.kNone;
    for (int32_t chunk = 0; chunk < shape.chunks; ++chunk)
      for (int32_t slot = 0; slot < shape.slots; ++slot) {
        barrier_wait(&full[cursor.stage], static_cast<uint32_t>(cursor.phase));
        const uint8_t* x = data + cursor.stage * ring.stage_bytes;
        if (slot == 0)
          kernel.rescale(reinterpret_cast<const int32_t*>(x + record.bytes - NT * 32), exponents, lane % 4);
        const uint8_t* tile = x + record.bytes + warp * shape.slot_bytes;
        if (shape.slot_groups == kSlotGroups)
          kernel.template slot<kSlotGroups>(tile, shape, record, x);
        else
          kernel.template slot<0>(tile, shape, record, x);
        __syncwarp();
        if (lane == 0) barrier_arrive(&empty[cursor.stage]);
        cursor.next(a.stages);
      }
    kernel.store(a.out + static_cast<size_t>(slice) * (NT * 8) * shape.padded_rows(), a,
                 block * shape.block_tiles + warp, exponents);
    if (++block == a.row_blocks) {
      block = 0;
      ++slice;
    }
  }
#else
  __trap();
#endif
}

}  // namespace penstock::exec::cuda
