// Norms, gates and packing of prompts: a block of threads for each token.
#include "exec/cuda/activation_code.h"
#include "exec/cuda/dense_code.h"
#include "exec/cuda/gate_code.h"
#include "exec/cuda/launch.h"
#include "exec/cuda/prompt.h"

namespace penstock::exec::cuda {
namespace {

constexpr int32_t kThreads = 512;

/// T is float4 where rows are made of whole ones, else float.
template <class T>
constexpr int32_t kWidth = sizeof(T) / sizeof(float);

template <class T>
__device__ T read(const float* at) {
  return *reinterpret_cast<const T*>(at);
}
template <class T>
__device__ float& element(T& value, int32_t i) {
  return reinterpret_cast<float*>(&value)[i];
}

/// The row in shared memory becomes the token's activations; `most`: of what this thread wrote there.
__device__ void write_row(const float* row, float most, const DenseActivations& out, int32_t token,
                          float* scratch) {
  most = max_lanes(most);
  __syncthreads();
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

/// The row of value(c), a T for columns from c on, becomes the token's activations.
template <class T, class Value>
__device__ void make_row(float* row, const DenseActivations& out, int32_t token, float* scratch,
                         const Value& value) {
  float most = 0;
  for (int32_t c = static_cast<int32_t>(threadIdx.x) * kWidth<T>; c < out.cols; c += kThreads * kWidth<T>) {
    T x = value(c);
#pragma unroll
    for (int32_t i = 0; i < kWidth<T>; ++i) most = fmaxf(most, fabsf(element(x, i)));
    *reinterpret_cast<T*>(row + c) = x;
  }
  write_row(row, most, out, token, scratch);
}

/// What the projection ahead adds to columns from c on, before its norm.
template <class T>
__device__ T pending_sum(const PromptNorm& a, int32_t token, int32_t c) {
  T y = read_sums<T>(a.pending, token, c);
  if (a.bias != nullptr)
#pragma unroll
    for (int32_t i = 0; i < kWidth<T>; ++i) element(y, i) += a.bias[c + i];
  return y;
}

template <class T>
__global__ void __launch_bounds__(kThreads) norm_prompt(const PromptNorm a) {
  extern __shared__ __align__(16) float row[];
  __shared__ float scratch[32];
  allow_next();
  await_previous();
  constexpr int32_t kStep = kThreads * kWidth<T>;
  const auto token = static_cast<int32_t>(blockIdx.x);
  const int32_t first = static_cast<int32_t>(threadIdx.x) * kWidth<T>;
  float* hidden = a.hidden + static_cast<size_t>(token) * a.width;
  const bool adds = a.pending.data != nullptr, post = adds && a.post_norm != nullptr;
  float scale = 1, squares = 0;
  if (post) {
    for (int32_t c = first; c < a.width; c += kStep) {
      T y = pending_sum<T>(a, token, c);
#pragma unroll
      for (int32_t i = 0; i < kWidth<T>; ++i) squares = fmaf(element(y, i), element(y, i), squares);
      *reinterpret_cast<T*>(row + c) = y;
    }
    scale = rsqrtf(sum_block(squares, scratch) / static_cast<float>(a.width) + a.post_eps);
    squares = 0;
  }
  for (int32_t c = first; c < a.width; c += kStep) {
    T x = read<T>(hidden + c);
    if (adds) {
      T y = post ? read<T>(row + c) : pending_sum<T>(a, token, c);
#pragma unroll
      for (int32_t i = 0; i < kWidth<T>; ++i)
        element(x, i) += post ? __fmul_rn(element(y, i) * scale, a.post_norm[c + i]) : element(y, i);
      *reinterpret_cast<T*>(hidden + c) = x;
    }
#pragma unroll
    for (int32_t i = 0; i < kWidth<T>; ++i) squares = fmaf(element(x, i), element(x, i), squares);
    *reinterpret_cast<T*>(row + c) = x;
  }
  const float inverse = rsqrtf(sum_block(squares, scratch) / static_cast<float>(a.width) + a.eps);
  const auto normed = [&](int32_t c) {
    T x = read<T>(row + c), norm = read<T>(a.norm + c);
#pragma unroll
    for (int32_t i = 0; i < kWidth<T>; ++i) element(x, i) = element(x, i) * inverse * element(norm, i);
    return x;
  };
  if (a.gate_bound > 0) {
    squares = 0;
    for (int32_t c = first; c < a.width; c += kStep) {
      T x = normed(c);
#pragma unroll
      for (int32_t i = 0; i < kWidth<T>; ++i) squares = fmaf(element(x, i), element(x, i), squares);
    }
    const float bound = sum_block(squares, scratch) * a.gate_bound;
    if (threadIdx.x == 0) a.gate_exponents[token] = bound > 0 ? min(max(ilogbf(bound) - 14, -30), 60) : 0;
  }
  make_row<T>(row, a.out, token, scratch, normed);
}

template <class T>
__global__ void __launch_bounds__(kThreads) gate_prompt(const GateArguments a, const DenseActivations out) {
  extern __shared__ __align__(16) float row[];
  __shared__ float scratch[32];
  allow_next();
  await_previous();
  make_row<T>(row, out, static_cast<int32_t>(blockIdx.x), scratch, [&](int32_t c) {
    const auto token = static_cast<int32_t>(blockIdx.x);
    const int32_t place = a.interleaved ? c / 8 * 16 + c % 8 : c;
    T gate = read_sums<T>(a.gate.sums, token, a.gate.first_column + place);
    T up = read_sums<T>(a.up.sums, token, a.up.first_column + place);
#pragma unroll
    for (int32_t i = 0; i < kWidth<T>; ++i) {
      float g = element(gate, i), u = element(up, i);
      if (a.gate.bias != nullptr) g += a.gate.bias[c + i];
      if (a.up.bias != nullptr) u += a.up.bias[c + i];
      element(gate, i) = activate(a.activation, g) * u;
    }
    return gate;
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads) pack_prompt(const float* rows, const DenseActivations out) {
  extern __shared__ __align__(16) float row[];
  __shared__ float scratch[32];
  allow_next();
  await_previous();
  const auto token = static_cast<int32_t>(blockIdx.x);
  make_row<T>(row, out, token, scratch,
              [&](int32_t c) { return read<T>(rows + static_cast<size_t>(token) * out.cols + c); });
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
  launch_rows(arguments.width % 4 == 0 ? norm_prompt<float4> : norm_prompt<float>, tokens, arguments.width,
              stream, arguments);
}

void prompt_gate(const GateArguments& arguments, const DenseActivations& out, int32_t tokens,
                 cudaStream_t stream) {
  launch_rows(arguments.width % 4 == 0 ? gate_prompt<float4> : gate_prompt<float>, tokens, arguments.width,
              stream, arguments, out);
}

void prompt_pack(const float* rows, const DenseActivations& out, int32_t tokens, cudaStream_t stream) {
  launch_rows(out.cols % 4 == 0 ? pack_prompt<float4> : pack_prompt<float>, tokens, out.cols, stream, rows,
              out);
}

}  // namespace penstock::exec::cuda
