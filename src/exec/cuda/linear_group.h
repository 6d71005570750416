// The multiplication of linear_kernel.h for 17 to 64 rows on warpgroup instructions: weights as fragments in
// registers, activations read from the ring. The same sums in the same order, so the same bits. Only for
// devices of compute capability 9.0. Included by one source file for each kind of tile.
#pragma once

#include "exec/cuda/linear_kernel.h"
#include "exec/cuda/wgmma_code.h"

namespace penstock::exec::cuda {

/// A warp has one tile; the four of a warpgroup share their instructions. AHEAD: there are registers for two
/// sums and the fragments of two groups.
template <TileKind K, int G, int NT, bool AHEAD>
struct GroupKernel {
  static constexpr int kScaleGroups = K == TileKind::kHalf ? 0 : kGroupCols / G;
  static constexpr int kSteps = K == TileKind::kHalf ? 4 : 4 / kScaleGroups;
  static constexpr int kCodeBytes = K == TileKind::kFour ? 512 : K == TileKind::kEight ? 1024 : 2048;

  static constexpr bool kAhead = AHEAD && K != TileKind::kHalf;
  static constexpr uint64_t kGroupOn = NT * 1024 / 16;  // descriptor of the next group

  float acc[NT * 4];

  __device__ void clear() {
#pragma unroll
    for (float& value : acc) value = 0;
  }

  /// Starts the sums of scale group s of a group of 64 columns; `fragments`: descriptor of its activations.
  __device__ void start(float (&raw)[NT * 4], const uint32_t (&a)[4][4], int s, uint64_t fragments) {
    wgmma_fence();
#pragma unroll
    for (int k = s * kSteps; k < (s + 1) * kSteps; ++k) {
      if (k == s * kSteps)
        wgmma_registers<NT * 8, false>(raw, a[k], at_step(fragments, k));
      else
        wgmma_registers<NT * 8>(raw, a[k], at_step(fragments, k));
    }
    wgmma_commit();
  }

  __device__ void add_scaled(const float (&raw)[NT * 4], float2 scale) {
#pragma unroll
    for (int i = 0; i < NT * 4; ++i) acc[i] = fmaf(raw[i], i % 4 < 2 ? scale.x : scale.y, acc[i]);
  }

  /// 16 columns on: 32 bytes within 64, or the next 32 columns.
  __device__ static uint64_t at_step(uint64_t fragments, int k) {
    return fragments + static_cast<uint64_t>((k / 2 * NT * activation_tile_bytes(NT) + k % 2 * 32) / 16);
  }

  __device__ void add_biases(const uint8_t* slot, int32_t groups, const uint8_t* sums) {
    const int lane = threadIdx.x % 32;
    const int32_t scales = groups * kScaleGroups;
    for (int32_t i = 0; i < bias_steps_of<G>(scales); ++i) {
      const uint2 bias = read_biases<G>(slot + groups * kCodeBytes + scales * 32, scales, i);
      const uint32_t a[4] = {bias.x, bias.y, bias.x, bias.y};
#pragma unroll
      for (int n = 0; n < NT; ++n) {
        const uint2 b = reinterpret_cast<const uint2*>(sums)[(i * NT + n) * 32 + lane];
        mma(reinterpret_cast<float(&)[4]>(acc[n * 4]), a, b.x, b.y);
      }
    }
  }

  /// Adds the groups of a slot one after the other.
  template <int GROUPS>
  __device__ void add_groups(const uint8_t* tile, int32_t groups, const half2* scales, uint64_t fragments) {
    const int lane = threadIdx.x % 32;
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
          start(raw, a, s, fragments);
          const float2 scale = __half22float2(scales[(group * kScaleGroups + s) * 8]);
          wgmma_wait<0>();
          add_scaled(raw, scale);
        }
      }
      fragments += kGroupOn;
    }
  }

  /// A slot in the ring.
  struct Place {
    const uint8_t *tile, *x;
    int32_t stage;
  };

  static __device__ const half2* scales_of(const uint8_t* tile, int32_t groups) {
    return reinterpret_cast<const half2*>(tile + groups * kCodeBytes) + threadIdx.x % 32 / 4;
  }

  /// Sums of all slots, each started before the one ahead is added, its fragments made meanwhile; the first
  /// of a slot before the last of the slot ahead. next(): waits for a slot. release(): of its place.
  template <int GROUPS, class Next, class Release>
  __device__ void add_slots(int32_t slots, const ActivationSlot& record, const Next& next,
                            const Release& release) {
    constexpr int kAll = GROUPS * kScaleGroups;
    static_assert(kAll % 2 == 0 && GROUPS % 2 == 0);
    const int lane = threadIdx.x % 32;
    uint32_t a[2][4][4];
    float raw[2][NT * 4];
    const auto begin = [&](const Place& place) {
      read_fragments<K>(place.tile, lane, a[0]);
      start(raw[0], a[0], 0, activation_descriptor(shared_address(place.x)));
    };
    const auto go_on = [&](const Place& place) {
      const half2* scales = scales_of(place.tile, GROUPS);
      const uint64_t fragments = activation_descriptor(shared_address(place.x));
#pragma unroll
      for (int i = 1; i < kAll; ++i) {
        const int group = i / kScaleGroups, s = i % kScaleGroups;
        if (s == 0) read_fragments<K>(place.tile + group * kCodeBytes, lane, a[group % 2]);
        start(raw[i % 2], a[group % 2], s, fragments + static_cast<uint64_t>(group) * kGroupOn);
        wgmma_wait<1>();
        add_scaled(raw[(i - 1) % 2], __half22float2(scales[(i - 1) * 8]));
      }
    };
    const auto end = [&](const Place& place) {
      add_scaled(raw[1], __half22float2(scales_of(place.tile, GROUPS)[(kAll - 1) * 8]));
      add_biases(place.tile, GROUPS, place.x + record.fragment_bytes);
      release(place.stage);
    };
    // Two slots at a time: an instruction that runs on around a loop would make every one wait.
    for (int32_t slot = 0; slot < slots; slot += 2) {
      Place now = next();
      begin(now);
      go_on(now);
      if (slot + 1 == slots) {
        wgmma_wait<0>();
        end(now);
        break;
      }
      const Place then = next();
      begin(then);
      wgmma_wait<1>();
      end(now);
      go_on(then);
      wgmma_wait<0>();
      end(then);
    }
  }

  template <int GROUPS>
  __device__ void slot(const uint8_t* tile, const TileShape& shape, const ActivationSlot& record,
                       const uint8_t* x) {
    const int32_t groups = GROUPS > 0 ? GROUPS : shape.slot_groups;
    add_groups<GROUPS>(tile, groups, scales_of(tile, groups), activation_descriptor(shared_address(x)));
    if constexpr (K != TileKind::kHalf) add_biases(tile, groups, x + record.fragment_bytes);
  }

  /// out: [rows, width] of the slice.
  __device__ void store(float* out, const LinearArguments& a, int32_t tile, const int32_t* exponents) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int32_t width = a.shape.padded_rows();
    if (tile * kTileRows >= width) return;
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int32_t r = n * 8 + t * 2 + i;
        if (r >= a.rows) continue;
        const float scale = power_of_two(exponents[r]) * a.factor;
        float* row = out + static_cast<size_t>(r) * width + tile * kTileRows + g;
        row[0] = acc[n * 4 + i] * scale;
        row[8] = acc[n * 4 + i + 2] * scale;
      }
  }
};

template <TileKind K, int G, int NT, int WARPS>
__global__ void __launch_bounds__(WARPS * 32 + 128, 1) linear_groups(const LinearArguments a) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ uint64_t barriers[2 * kMaxStages];
  __shared__ __align__(16) int32_t exponents[kExponents];
  __shared__ float sums[WARPS * NT * 8];
  uint8_t* data = shared + ((1024 - (shared_address(shared) & 1023)) & 1023);
  const TileShape& shape = a.shape;
  const ActivationSlot record(shape, NT);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const RingBlock own(a, data, exponents, barriers, record.bytes, WARPS);
  if (warp >= WARPS) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
    if (warp == WARPS && lane == 0) fill_ring(a, own);
    return;
  }
  if constexpr (WARPS == 12)  // of the 128 or 96 that every thread begins with
    asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
  else
    asm volatile("setmaxnreg.inc.sync.aligned.u32 112;");

  constexpr int kSlotGroups = most_slot_groups(K);
  using Kernel = GroupKernel<K, G, NT, NT == 4 || WARPS == 12>;
  Kernel kernel;
  RingCursor cursor;
  int32_t slice = own.first / a.row_blocks, block = own.first % a.row_blocks;
  for (int32_t unit = own.first; unit < own.last; ++unit) {
    kernel.clear();
    const auto next = [&] {
      const int32_t stage = cursor.stage;
      barrier_wait(&own.ring.full[stage], static_cast<uint32_t>(cursor.phase));
      cursor.next(a.stages);
      const uint8_t* x = data + stage * a.stage_bytes;
      return typename Kernel::Place{x + record.bytes + warp * shape.slot_bytes, x, stage};
    };
    const auto release = [&](int32_t stage) {
      __syncwarp();
      if (lane == 0) barrier_arrive(&own.ring.empty[stage]);
    };
    const bool whole = shape.slot_groups == kSlotGroups;
    if (Kernel::kAhead && whole && a.stages > 1) {
      if constexpr (Kernel::kAhead)
        kernel.template add_slots<kSlotGroups>(shape.slice_slots(), record, next, release);
    } else {
      for (int32_t slot = 0; slot < shape.slice_slots(); ++slot) {
        const auto place = next();
        if (whole)
          kernel.template slot<kSlotGroups>(place.tile, shape, record, place.x);
        else
          kernel.template slot<0>(place.tile, shape, record, place.x);
        release(place.stage);
      }
    }
    const int32_t first_tile = block * shape.block_tiles;
    if (a.gate.data != nullptr) {
      gate_tile<NT>(a, exponents, first_tile + warp, reinterpret_cast<const float(&)[NT][4]>(kernel.acc),
                    sums + warp * NT * 8);
      await_readers(WARPS * 32);
      add_tile_sums<NT>(a, first_tile, sums, static_cast<int32_t>(threadIdx.x), WARPS * 32);
      await_readers(WARPS * 32);
    } else {
      kernel.store(a.out + static_cast<size_t>(slice) * (NT * 8) * shape.padded_rows(), a, first_tile + warp,
                   exponents);
    }
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
