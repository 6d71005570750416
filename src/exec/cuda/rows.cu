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

/// One block for each row. Dynamic shared memory: the row, then the maxima of its groups.
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
      float y = read_sums<float>(a.pending, token, c) * row_factor(a.pending, token);
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
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int32_t c = threadIdx.x; c < a.width; c += kNormThreads) row[c] = row[c] * inverse * a.norm[c];
  __syncthreads();
  float* maxima = row + a.width;
  for (int32_t o = 0; o < a.n_outputs; ++o) {
    const ActivationOut& out = a.outputs[o];
    if (out.shape.of.kind == TileKind::kFloat) {
      for (int32_t c = threadIdx.x; c < a.width; c += kNormThreads) write_float(out, out_row, c, row[c]);
      continue;
    }
    const int32_t groups = out.shape.padded_cols() / kGroupCols;
    const auto value = [&](int32_t group) {
      const int32_t c = group * kGroupCols + lane * 2;
      return float2{c < a.width ? row[c] : 0.0f, c + 1 < a.width ? row[c + 1] : 0.0f};
    };
    for (int32_t group = warp; group < groups; group += kNormThreads / 32) {
      const float2 v = value(group);
      const float most = max_lanes(fmaxf(fabsf(v.x), fabsf(v.y)));
      if (lane == 0) maxima[group] = most;
    }
    __syncthreads();
    for (int32_t group = warp; group < groups; group += kNormThreads / 32) {
      const int32_t chunk = group / out.shape.chunk_groups, before = chunk * out.shape.chunk_groups;
      write_group(out, out_row, chunk, group - before, value(group),
                  chunk_exponent(maxima + before, out.shape.chunk_groups));
    }
    __syncthreads();
  }
}

/// One block of 8 warps for each row and chunk: the common case, one output and no norm behind the sum.
__global__ void __launch_bounds__(256) norm_chunk(const NormArguments a) {
  __shared__ float maxima[8], squares[8];
  allow_next();
  await_previous();
  const auto row = static_cast<int32_t>(blockIdx.x);
  const int32_t token = a.tokens_of != nullptr ? a.tokens_of[row] : row;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const ActivationOut& out = a.outputs[0];
  const int32_t chunk_groups = out.shape.chunk_groups;
  const int32_t group = static_cast<int32_t>(blockIdx.y) * chunk_groups + warp;
  const int32_t c = group * kGroupCols + lane * 2;
  float2 v = {0, 0};
  float square = 0;
  if (warp < chunk_groups) {
    if (c < a.width) {
      auto* hidden = reinterpret_cast<float2*>(a.hidden + static_cast<size_t>(token) * a.width + c);
      const float2 norm = *reinterpret_cast<const float2*>(a.norm + c);
      v = *hidden;
      if (a.pending.data != nullptr) {
        float2 y = read_sums<float2>(a.pending, token, c);
        if (a.bias != nullptr) y = {y.x + a.bias[c], y.y + a.bias[c + 1]};
        v = {v.x + y.x, v.y + y.y};
        if (a.tokens_of == nullptr) *hidden = v;
      }
      square = v.x * v.x + v.y * v.y;
      v = {v.x * norm.x, v.y * norm.y};
    }
    square = sum_lanes(square);
    if (lane == 0) squares[warp] = square;
    const float most = max_lanes(fmaxf(fabsf(v.x), fabsf(v.y)));
    if (lane == 0) maxima[warp] = most;
  }
  __syncthreads();
  if (warp < chunk_groups) write_group(out, row, blockIdx.y, warp, v, chunk_exponent(maxima, chunk_groups));
  if (threadIdx.x == 0) {
    float sum = 0;
    for (int32_t w = 0; w < chunk_groups; ++w) sum += squares[w];
    a.squares[row * kMaxSquares + blockIdx.y] = sum;
  }
}

/// One block of 8 warps for each row and chunk.
__global__ void __launch_bounds__(256) gate_chunk(const GateArguments a) {
  __shared__ float maxima[8];
  allow_next();
  await_previous();
  const auto row = static_cast<int32_t>(blockIdx.x);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float gate_factor = 1, up_factor = 1;
  const auto read_factors = [&] {
    gate_factor = row_factor(a.gate.sums, row);
    up_factor = a.interleaved ? gate_factor : row_factor(a.up.sums, row);
  };
  const auto finish = [&](float gate, float up, int32_t column) {
    gate *= gate_factor;
    up *= up_factor;
    if (a.gate.bias != nullptr) gate += a.gate.bias[column];
    if (a.up.bias != nullptr) up += a.up.bias[column];
    return activate(a.activation, gate) * up;
  };
  const auto place = [&](int32_t column) { return a.interleaved ? column / 8 * 16 + column % 8 : column; };
  if (a.output.shape.of.kind == TileKind::kFloat) {
    const auto column = static_cast<int32_t>(blockIdx.y * blockDim.x + threadIdx.x);
    read_factors();
    if (column < a.width) {
      const float gate = read_sums<float>(a.gate.sums, row, a.gate.first_column + place(column));
      const float up = read_sums<float>(a.up.sums, row, a.up.first_column + place(column));
      write_float(a.output, row, column, finish(gate, up, column));
    }
    return;
  }
  const int32_t chunk_groups = a.output.shape.chunk_groups;
  const int32_t group = static_cast<int32_t>(blockIdx.y) * chunk_groups + warp;
  float2 v = {0, 0};
  if (warp < chunk_groups) {
    const int32_t column = group * kGroupCols + lane * 2;
    float2 gate = {0, 0}, up = {0, 0};
    if (column < a.width) {
      gate = read_sums<float2>(a.gate.sums, row, a.gate.first_column + place(column));
      up = read_sums<float2>(a.up.sums, row, a.up.first_column + place(column));
    }
    read_factors();
    if (column < a.width) v.x = finish(gate.x, up.x, column);
    if (column + 1 < a.width) v.y = finish(gate.y, up.y, column + 1);
    const float most = max_lanes(fmaxf(fabsf(v.x), fabsf(v.y)));
    if (lane == 0) maxima[warp] = most;
  }
  __syncthreads();
  if (warp < chunk_groups)
    write_group(a.output, row, blockIdx.y, warp, v, chunk_exponent(maxima, chunk_groups));
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

bool norm_rows(const NormArguments& arguments, int32_t rows, cudaStream_t stream) {
  const TileShape& first = arguments.outputs[0].shape;
  if (arguments.n_outputs == 1 && arguments.post_norm == nullptr && first.of.kind != TileKind::kFloat &&
      arguments.width % 2 == 0 && first.slices * first.chunks <= kMaxSquares) {
    const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(first.slices * first.chunks));
    launch(norm_chunk, {grid, 256}, stream, arguments);
    return true;
  }
  size_t groups = 0;
  for (int32_t o = 0; o < arguments.n_outputs; ++o) {
    const auto own = static_cast<size_t>(arguments.outputs[o].shape.padded_cols() / kGroupCols);
    groups = own > groups ? own : groups;
  }
  const size_t shared = (static_cast<size_t>(arguments.width) + groups) * sizeof(float);
  static const bool allowed = [] {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(norm_row),
                               cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024),
          "shared memory");
    return true;
  }();
  static_cast<void>(allowed);
  launch(norm_row, {static_cast<unsigned>(rows), kNormThreads, shared}, stream, arguments);
  return false;
}

void gate_rows(const GateArguments& arguments, int32_t tokens, cudaStream_t stream) {
  const TileShape& shape = arguments.output.shape;
  const int32_t chunks =
      shape.of.kind == TileKind::kFloat ? (arguments.width + 255) / 256 : shape.slices * shape.chunks;
  launch(gate_chunk, {dim3(static_cast<unsigned>(tokens), static_cast<unsigned>(chunks)), 256}, stream,
         arguments);
}

}  // namespace penstock::exec::cuda
