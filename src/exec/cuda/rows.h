// The work between the multiplications: sums of slices, norms, rope, gates, and the preparation of the next
// multiplication's activations. Everything here takes up to 64 tokens (a pass).
#pragma once

#include <cuda_runtime.h>

#include "exec/cuda/linear.h"
#include "ops/operation.h"

namespace penstock::exec::cuda {

/// What the host says of a pass. Padding tokens have slot -1.
struct PassInputs {
  int32_t tokens[kPassRows];  // ids, or -1: the slot's last token
  int32_t slots[kPassRows];
  int32_t positions[kPassRows];
  int32_t logit_tokens[kPassRows];  // tokens of the pass whose logits are wanted
};

/// Tokens of a pass on the device.
struct PassView {
  const int32_t *tokens = nullptr, *slots = nullptr, *positions = nullptr;
};

/// Block `index` of a slot's table in a group becomes `block`.
struct DeviceEdit {
  int32_t slot, group, index, block;
};

/// Block tables: [slots][groups][blocks].
struct BlockTables {
  int32_t* blocks = nullptr;
  int32_t groups = 0, per_group = 0;
};

/// A buffer for prepared activations: what they are for, and for how many rows.
struct ActivationOut {
  uint8_t* data = nullptr;
  int32_t* exponents = nullptr;  // [rows]; null: given, the same for all rows
  TileShape shape;
  int32_t column_tiles = 1;
};

inline constexpr int32_t kMaxOutputs = 3;

/// h = h + post_norm(sum of slices + bias); then norm(h).
struct ResidualNorm {
  float* hidden = nullptr;  // [tokens, width]
  int32_t width = 0;
  Partials pending;  // data null: nothing to add
  const float *bias = nullptr, *post_norm = nullptr, *norm = nullptr;
  float post_eps = 0, eps = 0;
};

/// Into each output. With a bound of a gate's outputs for rows of length 1, `gate_exponents` become those of
/// activations under it.
struct NormArguments : ResidualNorm {
  const int32_t* tokens_of = nullptr;  // row r is token tokens_of[r]; null: token r
  ActivationOut outputs[kMaxOutputs];
  int32_t n_outputs = 0;
  float gate_bound = 0;
  int32_t* gate_exponents = nullptr;  // [rows]
};

/// Columns of a product: where a projection's values stand in its partial sums.
struct Product {
  Partials sums;
  int32_t first_column = 0;
  const float* bias = nullptr;
};

struct RopeTable {
  const float *cos = nullptr, *sin = nullptr;  // [tokens, dims / 2]
  int32_t dims = 0;
  bool interleaved = false;
};

/// Keys and values of one layer: [blocks][kv heads][64][dim].
struct KvLayerPool {
  void *keys = nullptr, *values = nullptr;
  bool half_precision = true;
  int32_t group = 0, kv_heads = 0, dim = 0;
};

struct HeadsArguments {
  PassView pass;
  BlockTables tables;
  Product q, k, v;
  const float *q_norm = nullptr, *k_norm = nullptr;
  float q_eps = 0, k_eps = 0;
  RopeTable rope;
  KvLayerPool pool;
  int32_t q_heads = 0;
  void* q_out = nullptr;  // [tokens, q_heads, dim]: float32, or float16
  bool q_half = false;
};

/// gate and up: column j of the activations is column j of each product, or 8 in turn of one (interleaved).
struct GateArguments {
  Product gate, up;
  bool interleaved = false;
  ops::Activation activation = ops::Activation::kSilu;
  int32_t width = 0;
  ActivationOut output;
};

struct TableRow {
  PassView pass;
  const int32_t* last_tokens = nullptr;  // [slots]
  TileMatrix table;
  float scale = 1;
  float* hidden = nullptr;
};

void apply_edits(const DeviceEdit* edits, int32_t n, BlockTables tables, cudaStream_t stream);
void embed(const TableRow& arguments, int32_t tokens, cudaStream_t stream);
void turn_table(PassView pass, const float* inv_freq, float magnitude, RopeTable out, int32_t tokens,
                cudaStream_t stream);
void norm_rows(const NormArguments& arguments, int32_t rows, cudaStream_t stream);
void finish_heads(const HeadsArguments& arguments, int32_t tokens, cudaStream_t stream);
void gate_rows(const GateArguments& arguments, int32_t tokens, cudaStream_t stream);

}  // namespace penstock::exec::cuda
