// From the sums of the q, k and v projections to turned heads: q to its buffer, k and v into the cache.
#include "exec/cuda/activation_code.h"
#include "exec/cuda/kv_code.h"
#include "exec/cuda/launch.h"

namespace penstock::exec::cuda {
namespace {

constexpr int32_t kHeadWarps = 4;
constexpr int32_t kMaxDim = 512;

/// Dimension i of a lane that reads `width` at a time.
template <int WIDTH>
__device__ int32_t place(int32_t i, int32_t lane) {
  return (i / WIDTH * 32 + lane) * WIDTH + i % WIDTH;
}

/// One warp for each token and head: q heads, then k heads, then v heads. T: float4 where the dim is a
/// multiple of 4, else float. DIM: the dim, or 0 where it is not known here.
template <class T, int DIM>
__global__ void __launch_bounds__(kHeadWarps * 32) finish_head(const HeadsArguments a) {
  constexpr int32_t kWidth = sizeof(T) / sizeof(float), kMost = DIM > 0 ? DIM : kMaxDim;
  constexpr int32_t kSteps = (kMost + 32 * kWidth - 1) / (32 * kWidth) * kWidth;  // dims of a lane
  __shared__ __align__(16) float values[kHeadWarps][kMost];
  allow_next();
  const int lane = threadIdx.x % 32;
  const int32_t head = static_cast<int32_t>(blockIdx.y) * kHeadWarps + threadIdx.x / 32;
  const auto token = static_cast<int32_t>(blockIdx.x);
  // The pass's inputs and the tables were there before its first kernel.
  const int32_t kv_heads = a.pool.kv_heads, dim = DIM > 0 ? DIM : a.pool.dim, slot = a.pass.slots[token];
  const int32_t position = a.pass.positions[token];
  const int32_t block = slot < 0 ? 0 : block_of(a.tables, slot, a.pool.group, position);
  if (head >= a.q_heads + 2 * kv_heads || slot < 0) return await_previous();
  const bool is_q = head < a.q_heads, is_v = head >= a.q_heads + kv_heads;
  const int32_t own = is_q ? head : is_v ? head - a.q_heads - kv_heads : head - a.q_heads;
  const Product& product = is_q ? a.q : is_v ? a.v : a.k;
  const float* norm = is_q ? a.q_norm : is_v ? nullptr : a.k_norm;
  const float* bias = product.bias != nullptr ? product.bias + own * dim : nullptr;
  float* x = values[threadIdx.x / 32];
  // Constants first: they need not wait.
  float weights[kSteps], biases[kSteps];
#pragma unroll
  for (int32_t i = 0; i < kSteps; ++i) {
    const int32_t d = place<kWidth>(i, lane);
    weights[i] = norm != nullptr && d < dim ? norm[d] : 1.0f;
    biases[i] = bias != nullptr && d < dim ? bias[d] : 0.0f;
  }
  await_previous();
  // Asked for with the sums: behind them they would be waited for again.
  constexpr int32_t kTurns = (kMost / 2 + 31) / 32;
  const bool turns = !is_v && a.rope.cos != nullptr;
  const int32_t half_dims = turns ? a.rope.dims / 2 : 0;
  float cosines[kTurns], sines[kTurns];
#pragma unroll
  for (int32_t n = 0; n < kTurns; ++n) {
    const int32_t i = n * 32 + lane;
    cosines[n] = sines[n] = 0;
    if (i >= half_dims) continue;
    cosines[n] = a.rope.cos[static_cast<size_t>(token) * half_dims + i];
    sines[n] = a.rope.sin[static_cast<size_t>(token) * half_dims + i];
  }
  for (int32_t d = lane * kWidth; d < dim; d += 32 * kWidth)
    *reinterpret_cast<T*>(x + d) = read_sums<T>(product.sums, token, product.first_column + own * dim + d);
  float squares = 0;
#pragma unroll
  for (int32_t i = 0; i < kSteps; ++i) {
    const int32_t d = place<kWidth>(i, lane);
    if (d >= dim) continue;
    const float y = x[d] + biases[i];
    x[d] = y;
    squares = fmaf(y, y, squares);
  }
  if (norm != nullptr) {
    const float inverse = rsqrtf(sum_lanes(squares) / static_cast<float>(dim) + (is_q ? a.q_eps : a.k_eps));
#pragma unroll
    for (int32_t i = 0; i < kSteps; ++i) {
      const int32_t d = place<kWidth>(i, lane);
      if (d < dim) x[d] = x[d] * inverse * weights[i];
    }
  }
  __syncwarp();
  if (turns) {
#pragma unroll
    for (int32_t n = 0; n < kTurns; ++n) {
      const int32_t i = n * 32 + lane;
      if (i >= half_dims) continue;
      float& first = x[a.rope.interleaved ? 2 * i : i];
      float& second = x[a.rope.interleaved ? 2 * i + 1 : i + half_dims];
      const float p = first, q = second;
      first = p * cosines[n] - q * sines[n];
      second = q * cosines[n] + p * sines[n];
    }
    __syncwarp();
  }
  if (is_q) {
    const size_t first = (static_cast<size_t>(token) * a.q_heads + own) * dim;
    for (int32_t d = lane; d < dim; d += 32) {
      if (a.q_half)
        static_cast<half*>(a.q_out)[first + d] = to_half(x[d]);
      else
        static_cast<float*>(a.q_out)[first + d] = x[d];
    }
    return;
  }
  void* pool = is_v ? a.pool.values : a.pool.keys;
  for (int32_t d = lane; d < dim; d += 32) {
    const size_t at = kv_index(a.pool, block, own, position % kBlockTokens, d);
    if (a.pool.half_precision)
      static_cast<half*>(pool)[at] = to_half(x[d]);
    else
      static_cast<float*>(pool)[at] = x[d];
  }
}

}  // namespace

void finish_heads(const HeadsArguments& arguments, int32_t tokens, cudaStream_t stream) {
  const int32_t heads = arguments.q_heads + 2 * arguments.pool.kv_heads;
  const auto blocks = static_cast<unsigned>((heads + kHeadWarps - 1) / kHeadWarps);
  const LaunchShape shape{dim3(static_cast<unsigned>(tokens), blocks), kHeadWarps * 32};
  const int32_t dim = arguments.pool.dim;
  const auto kernel = dim == 64      ? finish_head<float4, 64>
                      : dim == 128   ? finish_head<float4, 128>
                      : dim == 256   ? finish_head<float4, 256>
                      : dim % 4 == 0 ? finish_head<float4, 0>
                                     : finish_head<float, 0>;
  launch(kernel, shape, stream, arguments);
}

}  // namespace penstock::exec::cuda
