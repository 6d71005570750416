// The sets that top-k and top-p keep of a row, as ops/sample_cut.h defines them: by their last member. A
// block of threads for each row finds it digit by digit of the order of the logits, so nothing is sorted.
// Built without fused multiply-add: see ops/elementary.h.
#include "exec/cuda/device_code.h"
#include "exec/cuda/launch.h"
#include "exec/cuda/sampling.h"

namespace penstock::exec::cuda {
namespace {

constexpr int32_t kThreads = 1024;
constexpr int32_t kBins = 2048;  // of a digit, at most
constexpr int32_t kPieces = 3;   // of 14 bits: a sum of masses fits three of 32 bits
constexpr float kLowest = -3.402823466e38f;

/// ops::exp_nonpositive, step for step.
__device__ float exp_nonpositive(float x) {
  x = x < -87.0f ? -87.0f : x;
  constexpr float kRound = 12582912.0f;
  const float shifted = x * 1.44269504088896341f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = (p * r * r + r) + 1.0f;
  const int32_t power = __float_as_int(shifted) - __float_as_int(kRound);
  return y * __int_as_float((power + 127) << 23);
}

/// In units of 2^-40 of the largest.
__device__ uint64_t mass(float tempered) {
  if (tempered < -28.4f) return 0;
  return static_cast<uint64_t>(static_cast<int64_t>(exp_nonpositive(tempered) * 0x1p40f + 0.5f));
}

/// In the order of the values; both zeros are one.
__device__ uint32_t ordered(float value) {
  const uint32_t bits = __float_as_uint(value + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ float value_of(uint32_t order) {
  return __uint_as_float((order & 0x80000000u) != 0 ? order & 0x7fffffffu : ~order);
}

struct Scratch {
  uint32_t bins[kPieces][kBins];
  uint64_t sums[32];
  uint64_t before;  // the bin that was found
  int32_t found;
};

/// The sum of what this and lower threads have; `total`: of all.
__device__ uint64_t sum_up_to(uint64_t own, uint64_t& total, Scratch& scratch) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint64_t sum = own;
  for (int step = 1; step < 32; step *= 2) {
    const uint64_t other = __shfl_up_sync(0xffffffffu, sum, step);
    if (lane >= step) sum += other;
  }
  __syncthreads();
  if (lane == 31) scratch.sums[warp] = sum;
  __syncthreads();
  total = 0;
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w < warp) sum += scratch.sums[w];
    total += scratch.sums[w];
  }
  return sum;
}

struct RowOfLogits {
  const float* values;
  int32_t n;
  float max, temperature;
};

/// MASS: of the probability, else of the tokens. Cuts where the sum over the order reaches what need(total)
/// says; nothing where that is 0.
template <bool MASS, class Need>
__device__ DrawCut cut_at(const RowOfLogits& row, const DrawCut before, Scratch& scratch,
                          const Need& need_of) {
  constexpr int32_t kShift[4] = {32, 21, 10, 0};
  const uint32_t top = ordered(row.max);
  const auto weight = [&](float v) { return MASS ? mass((v - row.max) / row.temperature) : uint64_t{1}; };
  uint64_t need = 0, at_value = 0;
  uint32_t prefix = 0;
#pragma unroll
  for (int digit = 0; digit < 3; ++digit) {
    const int32_t bins = 1 << (kShift[digit] - kShift[digit + 1]);
    for (auto& piece : scratch.bins)
      for (int32_t b = threadIdx.x; b < kBins; b += kThreads) piece[b] = 0;
    __syncthreads();
    for (int32_t i = threadIdx.x; i < row.n; i += kThreads) {
      const float v = row.values[i];
      const uint32_t depth = top - ordered(v);
      if (!(v >= kLowest) || !before.keeps(v, i)) continue;
      if (digit > 0 && depth >> kShift[digit] != prefix) continue;
      const uint32_t bin = depth >> kShift[digit + 1] & static_cast<uint32_t>(bins - 1);
      const uint64_t own = weight(v);
      atomicAdd(&scratch.bins[0][bin], static_cast<uint32_t>(own & 0x3fff));
      if constexpr (MASS) {
        if (own >> 14 != 0) atomicAdd(&scratch.bins[1][bin], static_cast<uint32_t>(own >> 14 & 0x3fff));
        if (own >> 28 != 0) atomicAdd(&scratch.bins[2][bin], static_cast<uint32_t>(own >> 28));
      }
    }
    __syncthreads();
    const auto sum_of = [&](int32_t b) {
      return uint64_t{scratch.bins[0][b]} + (uint64_t{scratch.bins[1][b]} << 14) +
             (uint64_t{scratch.bins[2][b]} << 28);
    };
    const int32_t mine = static_cast<int32_t>(threadIdx.x) * 2;
    const uint64_t first = sum_of(mine), second = sum_of(mine + 1);
    uint64_t total = 0;
    const uint64_t up_to = sum_up_to(first + second, total, scratch);
    if (digit == 0) need = need_of(total);
    if (need == 0) return before;
    for (int b = 0; b < 2; ++b) {
      const uint64_t end = b == 0 ? up_to - second : up_to, own = b == 0 ? first : second;
      if (end < need || end - own >= need) continue;
      scratch.found = mine + b;
      scratch.before = end - own;
    }
    __syncthreads();
    prefix = prefix << (kShift[digit] - kShift[digit + 1]) | static_cast<uint32_t>(scratch.found);
    need -= scratch.before;
    at_value = sum_of(scratch.found);
    __syncthreads();
  }

  DrawCut cut{value_of(top - prefix), INT32_MAX};
  const uint64_t each = weight(cut.value);
  const auto wanted = static_cast<int32_t>((need + each - 1) / each);  // of the tokens with this logit
  if (wanted >= static_cast<int32_t>(at_value / each)) {
    if (cut.value == before.value) cut.token = before.token;
    return cut;
  }
  // The ids in order, a stretch for each thread.
  const int32_t stretch = (row.n + kThreads - 1) / kThreads,
                from = static_cast<int32_t>(threadIdx.x) * stretch;
  const int32_t to = min(from + stretch, row.n);
  int32_t count = 0;
  for (int32_t i = from; i < to; ++i) count += row.values[i] == cut.value ? 1 : 0;
  uint64_t total = 0;
  auto seen = static_cast<int32_t>(sum_up_to(static_cast<uint64_t>(count), total, scratch)) - count;
  if (seen < wanted && wanted <= seen + count)
    for (int32_t i = from; i < to; ++i)
      if (row.values[i] == cut.value && ++seen == wanted) scratch.found = i;
  __syncthreads();
  cut.token = scratch.found;
  __syncthreads();
  return cut;
}

__global__ void __launch_bounds__(kThreads, 1) cut_rows(const DrawArguments a, int32_t n_blocks) {
  __shared__ Scratch scratch;
  __shared__ float maxima[kThreads / 32];
  allow_next();
  await_previous();
  const DrawRow own = a.rows[blockIdx.x];
  const DrawBlock* blocks = a.blocks + static_cast<size_t>(blockIdx.x) * n_blocks;
  float most = -INFINITY;
  bool bad = false;
  for (int32_t b = threadIdx.x; b < n_blocks; b += kThreads) {
    most = fmaxf(most, blocks[b].most);
    bad |= blocks[b].bad != 0;
  }
  most = max_lanes(most);
  if (threadIdx.x % 32 == 0) maxima[threadIdx.x / 32] = most;
  bad = __syncthreads_or(bad) != 0;
  for (const float other : maxima) most = fmaxf(most, other);
  DrawCut cut;
  if (own.temperature > 0 && !bad && most >= kLowest) {
    const RowOfLogits row{a.logits + static_cast<size_t>(own.logit_row) * a.vocab, a.drawable, most,
                          own.temperature};
    if (own.top_k > 0 && own.top_k < a.vocab)
      cut = cut_at<false>(row, cut, scratch, [&](uint64_t total) {
        return static_cast<uint64_t>(own.top_k) <= total ? static_cast<uint64_t>(own.top_k) : 0;
      });
    if (own.top_p < 1)
      cut = cut_at<true>(row, cut, scratch, [&](uint64_t total) {
        const auto need = static_cast<uint64_t>(static_cast<double>(own.top_p) * static_cast<double>(total));
        return need < 1 ? uint64_t{1} : need > total ? total : need;
      });
  }
  if (threadIdx.x == 0) a.cuts[blockIdx.x] = cut;
}

}  // namespace

void cut_draws(const DrawArguments& arguments, int32_t rows, cudaStream_t stream) {
  launch(cut_rows, {static_cast<unsigned>(rows), kThreads}, stream, arguments, draw_blocks(arguments.vocab));
}

}  // namespace penstock::exec::cuda
