// Norms, gates and packing of prompts: a block of threads for each token.
#include "exec/cuda/activation_code.h"
#include "exec/cuda/dense_code.h"
#include "exec/cuda/gate_code.h"
#include "exec/cuda/launch.h"
#include "exec/cuda/prompt.h"

namespace penstock::exec::cuda {
namespace {

constexpr int32_t kThreads = 512;

/// The row in shared memory becomes the token's activations.
__device__ void write_row(const float* row, const DenseActivations& out, int32_t token, float* scratch) {
  float most = 0;
  __syncthreads();
  for (int32_t c = static_cast<int32_t>(threadIdx.x); c < out.cols; c += kThreads)
    most = fmaxf(most, fabsf(row[c]));
  most = max_lanes(most);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = most;
  __syncthreads();
  for (int32_t w = 0; w < kThreads / 32; ++w) most = fmaxf(most, scratch[w]);
  const int32_t exponent = exponent_of(most);
  if (threadIdx.x == 0) out.exponents[token] = exponent;
  const float scale = exponent == kNoExponent ? 0.0f : exp2f(static_cast<float>(-exponent));
  const int32_t blocks = dense_col_blocks(out.cols);
  for (int32_t block = static_cast<int32_t>(threadIdx.x / 32); block < blocks; block += kThreads / 32) {
    const int32_t c = block * kDenseCols + static_cast<int32_t>(threadIdx.x % 32) * 2;
    const float first = c < out.cols ? row[c] * scale : 0.0f,
                second = c + 1 < out.cols ? row[c + 1] * scale : 0.0f;
    write_dense(out.data, blocks, token, block, __floats2half2_rn(first, second));
  }
}

__global__ void __launch_bounds__(kThreads) norm_prompt(const PromptNorm a) {
  extern __shared__ float row[];
  __shared__ float scratch[32];
  allow_next();
  await_previous();
  const auto token = static_cast<int32_t>(blockIdx.x), thread = static_cast<int32_t>(threadIdx.x);
  float* hidden = a.hidden + static_cast<size_t>(token) * a.width;
  if (a.pending.data != nullptr) {
    float squares = 0;
    for (int32_t c = thread; c < a.width; c += kThreads) {
      float y = read_sums<float>(a.pending, token, c);
      if (a.bias != nullptr) y += a.bias[c];
      squares = fmaf(y, y, squares);
      row[c] = y;
    }
    float scale = 1;
    if (a.post_norm != nullptr)
      scale = rsqrtf(sum_block(squares, scratch) / static_cast<float>(a.width) + a.post_eps);
    for (int32_t c = thread; c < a.width; c += kThreads) {
      const float y = a.post_norm != nullptr ? __fmul_rn(row[c] * scale, a.post_norm[c]) : row[c];
      row[c] = hidden[c] + y;
      hidden[c] = row[c];
    }
  } else {
    for (int32_t c = thread; c < a.width; c += kThreads) row[c] = hidden[c];
  }
  float squares = 0;
  for (int32_t c = thread; c < a.width; c += kThreads) squares = fmaf(row[c], row[c], squares);
  const float inverse = rsqrtf(sum_block(squares, scratch) / static_cast<float>(a.width) + a.eps);
  for (int32_t c = thread; c < a.width; c += kThreads) row[c] = row[c] * inverse * a.norm[c];
  write_row(row, a.out, token, scratch);
}

__global__ void __launch_bounds__(kThreads) gate_prompt(const GateArguments a, const DenseActivations out) {
  extern __shared__ float row[];
  __shared__ float scratch[32];
  allow_next();
  await_previous();
  const auto token = static_cast<int32_t>(blockIdx.x);
  for (int32_t c = static_cast<int32_t>(threadIdx.x); c < a.width; c += kThreads) {
    const int32_t place = a.interleaved ? c / 8 * 16 + c % 8 : c;
    float gate = read_sums<float>(a.gate.sums, token, a.gate.first_column + place);
    float up = read_sums<float>(a.up.sums, token, a.up.first_column + place);
    if (a.gate.bias != nullptr) gate += a.gate.bias[c];
    if (a.up.bias != nullptr) up += a.up.bias[c];
    row[c] = activate(a.activation, gate) * up;
  }
  write_row(row, out, token, scratch);
}

__global__ void __launch_bounds__(kThreads) pack_prompt(const float* rows, const DenseActivations out) {
  extern __shared__ float row[];
  __shared__ float scratch[32];
  allow_next();
  await_previous();
  const auto token = static_cast<int32_t>(blockIdx.x);
  for (int32_t c = static_cast<int32_t>(threadIdx.x); c < out.cols; c += kThreads)
    row[c] = rows[static_cast<size_t>(token) * out.cols + c];
  write_row(row, out, token, scratch);
}

template <class... Args>
void launch_rows(void (*kernel)(Args...), int32_t tokens, int32_t width, cudaStream_t stream,
                 std::type_identity_t<Args>... args) {
  const size_t shared = static_cast<size_t>(width) * sizeof(float);
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024),
        "shared memory");
  launch(kernel, {static_cast<unsigned>(tokens), kThreads, shared}, stream, args...);
}

}  // namespace

void prompt_norm(const PromptNorm& arguments, int32_t tokens, cudaStream_t stream) {
  launch_rows(norm_prompt, tokens, arguments.width, stream, arguments);
}

void prompt_gate(const GateArguments& arguments, const DenseActivations& out, int32_t tokens,
                 cudaStream_t stream) {
  launch_rows(gate_prompt, tokens, arguments.width, stream, arguments, out);
}

void prompt_pack(const float* rows, const DenseActivations& out, int32_t tokens, cudaStream_t stream) {
  launch_rows(pack_prompt, tokens, out.cols, stream, rows, out);
}

}  // namespace penstock::exec::cuda
