// Embedding, norms and gates.
#include "exec/cuda/activation_code.h"
#include "exec/cuda/gate_code.h"
#include "exec/cuda/launch.h"

namespace penstock::exec::cuda {
namespace {

constexpr int32_t kNormThreads = 512;

__global__ void edit_tables(const DeviceEdit* edits, int32_t n, BlockTables tables) {
  allow_next();
  await_previous();
  // No entry occurs twice in a step.
  for (int32_t i = threadIdx.x; i < n; i += blockDim.x) {
    const DeviceEdit e = edits[i];
    tables.blocks[(static_cast<size_t>(e.slot) * tables.groups + e.group) * tables.per_group + e.index] =
        e.block;
  }
}

__global__ void embed_rows(TableRow a) {
  allow_next();
  await_previous();
  const int32_t token = blockIdx.x, slot = a.pass.slots[token];
  const int32_t given = a.pass.tokens[token];
  const int32_t id = slot < 0 ? 0 : given < 0 ? a.last_tokens[slot] : given;
  const int32_t width = a.table.shape.cols;
  for (int32_t c = blockIdx.y * blockDim.x + threadIdx.x; c < width; c += gridDim.y * blockDim.x)
    a.hidden[static_cast<size_t>(token) * width + c] = read_element(a.table, id, c) * a.scale;
}

__global__ void turn_rows(PassView pass, const float* inv_freq, float magnitude, RopeTable out) {
  allow_next();
  await_previous();
  const int32_t half_dims = out.dims / 2;
  const auto position = static_cast<float>(pass.positions[blockIdx.x]);
  for (int32_t i = threadIdx.x; i < half_dims; i += blockDim.x) {
    const size_t at = static_cast<size_t>(blockIdx.x) * half_dims + i;
    float sine, cosine;
    sincosf(__fmul_rn(position, inv_freq[i]), &sine, &cosine);
    const_cast<float*>(out.cos)[at] = cosine * magnitude;
    const_cast<float*>(out.sin)[at] = sine * magnitude;
  }
}

/// Each thread's value becomes the largest of its block. `scratch` holds 32 floats.
__device__ float max_block(float value, float* scratch) {
  value = max_lanes(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  for (unsigned w = 0; w < blockDim.x / 32; ++w) value = fmaxf(value, scratch[w]);
  return value;
}

/// A row in shared memory becomes activations: its columns behind `width` are zeros.
__device__ void write_row(const ActivationOut& out, int32_t row, const float* values, int32_t width,
                          float most) {
  if (out.shape.of.kind == TileKind::kFloat) {
    for (int32_t c = static_cast<int32_t>(threadIdx.x); c < width; c += kNormThreads)
      write_float(out, row, c, values[c]);
    return;
  }
  const int lane = threadIdx.x % 32;
  const int32_t exponent = row_exponent(most), groups = out.shape.padded_cols() / kGroupCols;
  if (threadIdx.x == 0) out.exponents[row] = exponent;
  for (int32_t group = static_cast<int32_t>(threadIdx.x / 32); group < groups; group += kNormThreads / 32) {
    const int32_t c = group * kGroupCols + lane * 2;
    const float2 v = {c < width ? values[c] : 0.0f, c + 1 < width ? values[c + 1] : 0.0f};
    write_group(out, row, group, v, power_of_two(-exponent));
  }
}

/// One block for each row. Dynamic shared memory: the row.
__global__ void __launch_bounds__(kNormThreads) norm_row(const NormArguments a) {
  extern __shared__ float row[];
  __shared__ float scratch[32];
  allow_next();
  await_previous();
  const int32_t token = a.tokens_of != nullptr ? a.tokens_of[blockIdx.x] : static_cast<int32_t>(blockIdx.x);
  float* hidden = a.hidden + static_cast<size_t>(token) * a.width;
  if (a.pending.data != nullptr) {
    float squares = 0;
    for (int32_t c = threadIdx.x; c < a.width; c += kNormThreads) {
      float y = read_sums<float>(a.pending, token, c);
      if (a.bias != nullptr) y += a.bias[c];
      squares = fmaf(y, y, squares);
      row[c] = y;
    }
    float scale = 1;
    if (a.post_norm != nullptr)
      scale = rsqrtf(sum_block(squares, scratch) / static_cast<float>(a.width) + a.post_eps);
    for (int32_t c = threadIdx.x; c < a.width; c += kNormThreads) {
      const float y = a.post_norm != nullptr ? row[c] * scale * a.post_norm[c] : row[c];
      row[c] = hidden[c] + y;
      // Rows that were picked may be the same token more than once.
      if (a.tokens_of == nullptr) hidden[c] = row[c];
    }
  } else {
    for (int32_t c = threadIdx.x; c < a.width; c += kNormThreads) row[c] = hidden[c];
  }
  float squares = 0;
  for (int32_t c = threadIdx.x; c < a.width; c += kNormThreads) squares = fmaf(row[c], row[c], squares);
  const float inverse = rsqrtf(sum_block(squares, scratch) / static_cast<float>(a.width) + a.eps);

  const auto out_row = static_cast<int32_t>(blockIdx.x);
  float most = 0, length = 0;
  for (int32_t c = threadIdx.x; c < a.width; c += kNormThreads) {
    const float x = row[c] * inverse * a.norm[c];
    row[c] = x;
    most = fmaxf(most, fabsf(x));
    length = fmaf(x, x, length);
  }
  most = max_block(most, scratch);
  length = sum_block(length, scratch);
  if (a.gate_bound > 0 && threadIdx.x == 0) a.gate_exponents[out_row] = row_exponent(a.gate_bound * length);
  for (int32_t o = 0; o < a.n_outputs; ++o) write_row(a.outputs[o], out_row, row, a.width, most);
}

constexpr int32_t kClusterBlocks = 8, kClusterWarps = 8;

/// A cluster for each row, a warp for every PER groups of 64 columns: the common case, one output and no norm
/// behind the sum.
template <int PER>
__global__ void __launch_bounds__(kClusterWarps * 32) norm_groups(const NormArguments a) {
  __shared__ __align__(16) float4 parts[kClusterBlocks * kClusterWarps];  // of each warp of the cluster
  cluster_arrive();
  allow_next();
  const auto row = static_cast<int32_t>(blockIdx.x), rank = static_cast<int32_t>(blockIdx.y),
             blocks = static_cast<int32_t>(gridDim.y);
  const int lane = threadIdx.x % 32;
  const int32_t own = rank * kClusterWarps + static_cast<int32_t>(threadIdx.x / 32),
                warps = blocks * kClusterWarps;
  const ActivationOut& out = a.outputs[0];
  const int32_t groups = out.shape.padded_cols() / kGroupCols;
  float2 norm[PER], v[PER];
#pragma unroll
  for (int i = 0; i < PER; ++i) {
    const int32_t c = (own + i * warps) * kGroupCols + lane * 2;
    norm[i] = c < a.width ? *reinterpret_cast<const float2*>(a.norm + c) : float2{0, 0};
  }
  await_previous();
  const int32_t token = a.tokens_of != nullptr ? a.tokens_of[row] : row;
  float squares = 0, most = 0, length = 0;
#pragma unroll
  for (int i = 0; i < PER; ++i) {
    const int32_t c = (own + i * warps) * kGroupCols + lane * 2;
    v[i] = {0, 0};
    if (c >= a.width) continue;
    auto* hidden = reinterpret_cast<float2*>(a.hidden + static_cast<size_t>(token) * a.width + c);
    v[i] = *hidden;
    if (a.pending.data == nullptr) continue;
    float2 y = read_sums<float2>(a.pending, token, c);
    if (a.bias != nullptr) y = {y.x + a.bias[c], y.y + a.bias[c + 1]};
    v[i] = {v[i].x + y.x, v[i].y + y.y};
    // Rows that were picked may be the same token more than once.
    if (a.tokens_of == nullptr) *hidden = v[i];
  }
#pragma unroll
  for (int i = 0; i < PER; ++i) {
    squares = fmaf(v[i].x, v[i].x, fmaf(v[i].y, v[i].y, squares));
    v[i] = {v[i].x * norm[i].x, v[i].y * norm[i].y};
    length = fmaf(v[i].x, v[i].x, fmaf(v[i].y, v[i].y, length));
    most = fmaxf(most, fmaxf(fabsf(v[i].x), fabsf(v[i].y)));
  }
  squares = sum_lanes(squares);
  length = sum_lanes(length);
  most = max_lanes(most);
  cluster_wait();  // the others have begun
  if (lane < blocks) store_in(address_in(shared_address(&parts[own]), lane), {squares, length, most, 0});
  __syncwarp();
  cluster_arrive();
  cluster_wait();
  squares = length = most = 0;
  for (int32_t i = lane; i < warps; i += 32) {
    const float4 part = parts[i];
    squares += part.x;
    length += part.y;
    most = fmaxf(most, part.z);
  }
  const float inverse = rsqrtf(sum_lanes(squares) / static_cast<float>(a.width) + a.eps);
  const int32_t exponent = row_exponent(max_lanes(most) * inverse);
  const float scale = inverse * power_of_two(-exponent);
#pragma unroll
  for (int i = 0; i < PER; ++i)
    if (own + i * warps < groups) write_group(out, row, own + i * warps, v[i], scale);
  length = sum_lanes(length) * inverse * inverse;
  if (own != 0 || lane != 0) return;
  out.exponents[row] = exponent;
  if (a.gate_bound > 0) a.gate_exponents[row] = row_exponent(a.gate_bound * length);
}

/// One block for each row, for gates that the multiplication does not store. Dynamic shared memory: the row.
__global__ void __launch_bounds__(kNormThreads) gate_row(const GateArguments a) {
  extern __shared__ float values[];
  __shared__ float scratch[32];
  allow_next();
  await_previous();
  const auto row = static_cast<int32_t>(blockIdx.x);
  float most = 0;
  for (int32_t c = threadIdx.x; c < a.width; c += kNormThreads) {
    const int32_t at = a.interleaved ? c / 8 * 16 + c % 8 : c;
    float gate = read_sums<float>(a.gate.sums, row, a.gate.first_column + at),
          up = read_sums<float>(a.up.sums, row, a.up.first_column + at);
    if (a.gate.bias != nullptr) gate += a.gate.bias[c];
    if (a.up.bias != nullptr) up += a.up.bias[c];
    values[c] = activate(a.activation, gate) * up;
    most = fmaxf(most, fabsf(values[c]));
  }
  write_row(a.output, row, values, a.width, max_block(most, scratch));
}

template <class Kernel>
void allow_shared(Kernel* kernel) {
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024),
        "shared memory");
}

template <int PER>
void launch_groups(const NormArguments& arguments, int32_t rows, int32_t blocks, cudaStream_t stream) {
  const auto cluster = static_cast<unsigned>(blocks);
  LaunchShape shape{dim3(static_cast<unsigned>(rows), cluster), kClusterWarps * 32};
  shape.cluster = dim3(1, cluster);
  launch(norm_groups<PER>, shape, stream, arguments);
}

}  // namespace

void apply_edits(const DeviceEdit* edits, int32_t n, BlockTables tables, cudaStream_t stream) {
  launch(edit_tables, {1, 256}, stream, edits, n, tables);
}

void embed(const TableRow& arguments, int32_t tokens, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((arguments.table.shape.cols + 255) / 256);
  launch(embed_rows, {dim3(static_cast<unsigned>(tokens), blocks), 256}, stream, arguments);
}

void turn_table(PassView pass, const float* inv_freq, float magnitude, RopeTable out, int32_t tokens,
                cudaStream_t stream) {
  launch(turn_rows, {static_cast<unsigned>(tokens), 64}, stream, pass, inv_freq, magnitude, out);
}

void norm_rows(const NormArguments& arguments, int32_t rows, cudaStream_t stream) {
  const TileShape& first = arguments.outputs[0].shape;
  const int32_t groups = (first.padded_cols() + kGroupCols - 1) / kGroupCols;
  int32_t blocks = 1;
  while (blocks < kClusterBlocks && blocks * kClusterWarps < groups) blocks *= 2;
  const int32_t per = (groups + blocks * kClusterWarps - 1) / (blocks * kClusterWarps);
  if (arguments.n_outputs == 1 && arguments.post_norm == nullptr && first.of.kind != TileKind::kFloat &&
      arguments.width % 2 == 0 && per <= 4) {
    if (per == 1) return launch_groups<1>(arguments, rows, blocks, stream);
    if (per == 2) return launch_groups<2>(arguments, rows, blocks, stream);
    return launch_groups<4>(arguments, rows, blocks, stream);
  }
  static const bool allowed = (allow_shared(norm_row), true);
  static_cast<void>(allowed);
  launch(norm_row,
         {static_cast<unsigned>(rows), kNormThreads, static_cast<size_t>(arguments.width) * sizeof(float)},
         stream, arguments);
}

void gate_rows(const GateArguments& arguments, int32_t tokens, cudaStream_t stream) {
  static const bool allowed = (allow_shared(gate_row), true);
  static_cast<void>(allowed);
  launch(gate_row,
         {static_cast<unsigned>(tokens), kNormThreads, static_cast<size_t>(arguments.width) * sizeof(float)},
         stream, arguments);
}

}  // namespace penstock::exec::cuda
