// Built without fused multiply-add: see ops/elementary.h.
#include "exec/cuda/activation_code.h"
#include "exec/cuda/device_code.h"
#include "exec/cuda/launch.h"
#include "exec/cuda/sampling.h"

namespace penstock::exec::cuda {
namespace {

constexpr int32_t kThreads = 256;
constexpr float kSlack = 1e-3f;

__device__ uint64_t splitmix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// ops::natural_log, step for step.
__device__ double natural_log(double x) {
  const auto bits = static_cast<uint64_t>(__double_as_longlong(x));
  auto exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double m = __longlong_as_double(static_cast<int64_t>((bits & 0xfffffffffffffULL) | 0x3ff0000000000000ULL));
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  double sum = 1.0 / 23;
#pragma unroll
  for (int n = 21; n >= 1; n -= 2) sum = sum * z + 1.0 / n;
  return static_cast<double>(exponent) * 0.69314718055994530942 + 2 * s * sum;
}

__device__ float gumbel_of(uint64_t bits) {
  const double u = (static_cast<double>(bits) + 0.5) * 0x1p-52;
  return static_cast<float>(-natural_log(-natural_log(u)));
}

/// Not below gumbel_of(bits).
__device__ float gumbel_bound(uint64_t bits) {
  const int width = 64 - __clzll(static_cast<long long>(~bits & 0xfffffffffffffULL));
  return static_cast<float>(53 - width) * 0.6932f;
}

__device__ uint64_t noise_bits(uint64_t key, int32_t token) {
  return splitmix64(key ^ static_cast<uint32_t>(token)) >> 12;
}

struct Best {
  float value;
  int32_t token;

  __device__ void take(float v, int32_t t) {
    if (v > value || (v == value && t < token)) {
      value = v;
      token = t;
    }
  }
};

__device__ Best best_of_warp(Best best) {
  for (int step = 16; step > 0; step /= 2) {
    const float v = __shfl_xor_sync(0xffffffffu, best.value, step);
    const int32_t t = __shfl_xor_sync(0xffffffffu, best.token, step);
    best.take(v, t);
  }
  return best;
}

__device__ Best best_of_block(Best best) {
  __shared__ Best warps[kThreads / 32];
  best = best_of_warp(best);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = best;
  __syncthreads();
  for (int w = 0; w < kThreads / 32; ++w) best.take(warps[w].value, warps[w].token);
  return best;
}

__global__ void __launch_bounds__(kThreads)
    sum_logits(Partials sums, float softcap, float* logits, int32_t vocab) {
  allow_next();
  await_previous();
  const auto row = static_cast<int32_t>(blockIdx.y);
  const int32_t first = static_cast<int32_t>(blockIdx.x) * kDrawCols;
#pragma unroll 4
  for (int32_t c = first + threadIdx.x; c < min(first + kDrawCols, vocab); c += kThreads) {
    const float v = read_sums<float>(sums, row, c);
    logits[static_cast<size_t>(row) * vocab + c] = softcap > 0 ? softcap * tanhf(v / softcap) : v;
  }
}

__global__ void __launch_bounds__(kThreads) scan_logits(const DrawArguments a) {
  allow_next();
  await_previous();
  const float* logits = a.logits + static_cast<size_t>(a.rows[blockIdx.y].logit_row) * a.vocab;
  const int32_t first = static_cast<int32_t>(blockIdx.x) * kDrawCols;
  Best best{-INFINITY, INT32_MAX};
  bool bad = false;
  for (int32_t c = first + threadIdx.x; c < min(first + kDrawCols, a.drawable); c += kThreads) {
    const float v = logits[c];
    bad |= !(v <= 3.402823466e38f);
    best.take(v, c);
  }
  best = best_of_block(best);
  const int any = __syncthreads_or(bad);
  if (threadIdx.x == 0) {
    DrawBlock& out = a.blocks[blockIdx.y * gridDim.x + blockIdx.x];
    out.most = best.value;
    out.token = best.token;
    out.bad = any;
  }
}

/// ops::apply_counts, for each token of a row.
__global__ void __launch_bounds__(kThreads) edit_logits(const DrawArguments a) {
  allow_next();
  await_previous();
  const DrawRow row = a.rows[blockIdx.y];
  if (row.repetition == 1 && row.presence == 0 && row.frequency == 0) return;
  float* logits = a.logits + static_cast<size_t>(row.logit_row) * a.vocab;
  const uint32_t* counts = a.counts + static_cast<size_t>(row.slot) * a.vocab;
  const int32_t first = static_cast<int32_t>(blockIdx.x) * kDrawCols;
  for (int32_t c = first + threadIdx.x; c < min(first + kDrawCols, a.vocab); c += kThreads) {
    const uint32_t count = counts[c], drawn = count & ~kInPrompt;
    if (count == 0) continue;
    float logit = logits[c];
    logit = logit < 0 ? logit * row.repetition : logit / row.repetition;
    if (drawn > 0) logit -= row.presence + row.frequency * static_cast<float>(drawn);
    logits[c] = logit;
  }
}

__global__ void __launch_bounds__(kThreads)
    count_prompt(uint32_t* counts, int32_t vocab, const int32_t* prompt, int32_t n) {
  allow_next();
  await_previous();
  const auto i = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (i < n && prompt[i] >= 0 && prompt[i] < vocab) counts[prompt[i]] = kInPrompt;
}

__global__ void __launch_bounds__(kThreads)
    count_generated(uint32_t* counts, int32_t vocab, const int32_t* drawn, int32_t n) {
  allow_next();
  await_previous();
  const auto i = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (i < n && drawn[i] >= 0 && drawn[i] < vocab) atomicAdd(counts + drawn[i], 1u);
}

__global__ void __launch_bounds__(kThreads) draw_logits(const DrawArguments a) {
  allow_next();
  await_previous();
  const DrawRow row = a.rows[blockIdx.y];
  DrawBlock* blocks = a.blocks + blockIdx.y * gridDim.x;
  const float* logits = a.logits + static_cast<size_t>(row.logit_row) * a.vocab;
  Best top{-INFINITY, INT32_MAX};
  for (unsigned b = threadIdx.x; b < gridDim.x; b += kThreads) top.take(blocks[b].most, blocks[b].token);
  top = best_of_block(top);
  const uint64_t key =
      splitmix64(row.seed) ^ (static_cast<uint64_t>(static_cast<uint32_t>(row.position)) << 32);
  const DrawCut cut = a.cuts != nullptr ? a.cuts[blockIdx.y] : DrawCut{};
  const bool noisy = row.temperature > 0 && top.token < a.vocab;
  Best best{noisy ? gumbel_of(noise_bits(key, top.token)) : 0, top.token};
  const int32_t first = static_cast<int32_t>(blockIdx.x) * kDrawCols;
  float sum = 0;
  for (int32_t c = first + threadIdx.x; c < min(first + kDrawCols, a.drawable); c += kThreads) {
    const float v = logits[c];
    sum += exp2f((v - top.value) * 1.44269504f);
    if (!noisy || !cut.keeps(v, c)) continue;
    const float tempered = (v - top.value) / row.temperature;
    if (tempered < row.least) continue;
    const uint64_t bits = noise_bits(key, c);
    if (tempered + gumbel_bound(bits) + kSlack < best.value) continue;
    best.take(tempered + gumbel_of(bits), c);
  }
  __shared__ float scratch[32];
  sum = sum_block(sum, scratch);
  best = best_of_block(best);
  if (threadIdx.x == 0) {
    DrawBlock& out = blocks[blockIdx.x];
    out.sum = sum;
    out.key = best.value;
    out.key_token = best.token;
  }
}

/// One warp for each row.
__global__ void finish_draws(const DrawArguments a, int32_t n_blocks) {
  allow_next();
  await_previous();
  const auto r = static_cast<int32_t>(blockIdx.x);
  const auto lane = static_cast<int32_t>(threadIdx.x);
  const DrawRow row = a.rows[r];
  const DrawBlock* blocks = a.blocks + static_cast<size_t>(r) * n_blocks;
  Best best{-INFINITY, INT32_MAX}, top = best;
  float sum = 0;
  int32_t bad = 0;
  for (int32_t b = lane; b < n_blocks; b += 32) {
    best.take(blocks[b].key, blocks[b].key_token);
    top.take(blocks[b].most, blocks[b].token);
    sum += blocks[b].sum;
    bad |= blocks[b].bad;
  }
  best = best_of_warp(best);
  top = best_of_warp(top);
  sum = sum_lanes(sum);
  bad = __any_sync(0xffffffffu, bad != 0);
  if (lane != 0) return;
  DrawResult result;
  if (bad == 0 && top.value >= -3.402823466e38f) {
    result.token = best.token;
    const float v = a.logits[static_cast<size_t>(row.logit_row) * a.vocab + best.token];
    result.logprob = (v - top.value) - logf(sum);
    a.last_tokens[row.slot] = result.token;
    ++a.counts[static_cast<size_t>(row.slot) * a.vocab + result.token];
  }
  a.results[r] = result;
}

/// A slot is named once.
__global__ void set_tokens(const DrawnTokens a) {
  allow_next();
  await_previous();
  for (int32_t i = threadIdx.x; i < a.n; i += blockDim.x) {
    if (a.tokens[i] < 0) continue;
    a.last_tokens[a.slots[i]] = a.tokens[i];
    ++a.counts[static_cast<size_t>(a.slots[i]) * a.vocab + a.tokens[i]];
  }
}

}  // namespace

void finish_logits(const Partials& sums, float softcap, float* logits, int32_t rows, int32_t vocab,
                   cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(draw_blocks(vocab)), static_cast<unsigned>(rows));
  launch(sum_logits, {grid, kThreads}, stream, sums, softcap, logits, vocab);
}

void draw(const DrawArguments& arguments, int32_t rows, cudaStream_t stream) {
  const int32_t blocks = draw_blocks(arguments.vocab);
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(rows));
  if (arguments.edits) launch(edit_logits, {grid, kThreads}, stream, arguments);
  launch(scan_logits, {grid, kThreads}, stream, arguments);
  if (arguments.cuts != nullptr) cut_draws(arguments, rows, stream);
  launch(draw_logits, {grid, kThreads}, stream, arguments);
  launch(finish_draws, {static_cast<unsigned>(rows), 32}, stream, arguments, blocks);
}

void set_last_tokens(const DrawnTokens& drawn, cudaStream_t stream) {
  launch(set_tokens, {1, 64}, stream, drawn);
}

void reset_counts(const SlotCounts& slot, const BeginTokens& begin, cudaStream_t stream) {
  check(cudaMemsetAsync(slot.counts, 0, static_cast<size_t>(slot.vocab) * sizeof(uint32_t), stream),
        "clear counts");
  const auto blocks = [](int32_t n) { return static_cast<unsigned>((n + kThreads - 1) / kThreads); };
  if (begin.n_prompt > 0)
    launch(count_prompt, {blocks(begin.n_prompt), kThreads}, stream, slot.counts, slot.vocab, begin.tokens,
           begin.n_prompt);
  if (begin.n_generated > 0)
    launch(count_generated, {blocks(begin.n_generated), kThreads}, stream, slot.counts, slot.vocab,
           begin.tokens + begin.n_prompt, begin.n_generated);
}

}  // namespace penstock::exec::cuda
