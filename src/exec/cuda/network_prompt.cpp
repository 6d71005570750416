// Prompt passes: matrices are multiplied in float16 on warpgroup instructions. The head,
// whose rows are few, is that of run().
#include <algorithm>
#include <cmath>

#include "exec/cuda/network.h"
#include "exec/cuda/pack.h"
#include "exec/cuda/sampling.h"

namespace penstock::exec::cuda {

void Network::run_prompt(const PromptShape& shape, float* logits, cudaStream_t stream) {
  prompt_ = shape;
  stream_ = stream;
  prompt_logits_ = logits;
  const int32_t* inputs = prompt_inputs();
  prompt_view_ = {inputs, inputs + shape.tokens, inputs + 2 * shape.tokens};
  pending_ = {};
  pending_of_ = nullptr;
  turn_tables(prompt_view_, shape.tokens);
  for (const Operation& operation : operations_)
    std::visit([this](const auto& op) { run_prompt(op); }, operation);
}

DenseActivations Network::prompt_activations(int32_t cols) const {
  return {prompts_.x.as<uint8_t>(), prompts_.exponents.as<int32_t>(), cols};
}

namespace {

/// The longest rows of a matrix: gates and what they gate, where 8 of each come in turn.
std::pair<float, float> longest_rows(const TileMatrix& matrix) {
  const Memory longest = Memory::device(2 * sizeof(float));
  check(cudaMemset(longest.as(), 0, longest.bytes()), "clear");
  measure_rows(matrix, longest.as<float>(), nullptr);
  float lengths[2];
  check(cudaMemcpy(lengths, longest.as(), sizeof(lengths), cudaMemcpyDeviceToHost), "measure rows");
  return {lengths[0], lengths[1]};
}

float largest(const float* on_device, int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  check(cudaMemcpy(values.data(), on_device, values.size() * sizeof(float), cudaMemcpyDeviceToHost),
        "read a vector");
  float most = 0;
  for (const float v : values) most = std::max(most, std::abs(v));
  return most;
}

}  // namespace

/// Leaves it at 0 where the multiplication cannot gate: columns behind the last of a group must be zeros.
void Network::bound_gate(Mlp& op) {
  const TileShape& down = op.down.matrix->shape;
  if (!op.interleaved || op.gate_bias != nullptr || op.up_bias != nullptr || down.cols % kDenseCols != 0 ||
      limits_.exact)
    return;
  const auto [gates, ups] = longest_rows(*op.input.matrices[0]);
  // Every activation is at most the gate itself; float16 rounds weights and activations.
  op.gate_bound = gates * ups * 1.02f;
  allocate_gated(down);
  op.gated = gated_shape_ == down;
}

/// The exponent of means of the layer's values, which are at most the longest row's product with the longest
/// input, and float16.
int32_t Network::bound_values(const AttnIn& op) {
  if (limits_.exact) return 0;
  const auto [first, second] = longest_rows(*op.input.matrices.back());
  float most = std::max(first, second) * largest(op.norm.weight, plan_.hidden) *
               std::sqrt(static_cast<float>(plan_.hidden)) * 1.02f;
  if (op.bias[2] != nullptr) most += largest(op.bias[2], op.op.kv_heads * op.op.head_dim);
  most = std::min(most, 65504.0f);
  return std::isfinite(most) && most > 0 ? std::max(std::ilogb(most) - 14, -30) : 0;
}

void Network::prepare_prompt(const Norm& norm, float gate_bound) {
  PromptNorm a{take_pending(norm)};
  a.gate_bound = gate_bound;
  a.gate_exponents = gated_activations(0).exponents;
  a.out = prompt_activations(plan_.hidden);
  prompt_norm(a, prompt_.tokens, stream_);
}

/// They lie where sums would, which are not needed then.
DenseActivations Network::gated_activations(int32_t cols) const {
  return {prompts_.sums.as<uint8_t>(), prompts_.exponents.as<int32_t>() + prompts_.tokens, cols};
}

Partials Network::prompt_product(const TileMatrix& matrix, const DenseActivations& x, float* out) {
  multiply_dense({matrix, x, out, prompt_.tokens, 0, {}}, stream_);
  Partials sums;
  sums.data = out;
  sums.width = matrix.shape.padded_rows();
  return sums;
}

std::vector<Partials> Network::prompt_products(const Input& input) {
  std::vector<Partials> sums;
  float* out = prompts_.sums.as<float>();
  for (const TileMatrix* matrix : input.matrices) {
    sums.push_back(prompt_product(*matrix, prompt_activations(matrix->shape.cols), out));
    out += static_cast<size_t>(prompt_.tokens) * static_cast<size_t>(matrix->shape.padded_rows());
  }
  return sums;
}

void Network::run_prompt(const Embed& op) {
  embed({prompt_view_, last_tokens(), *op.matrix, op.op.scale, hidden_.as<float>()}, prompt_.tokens, stream_);
}

void Network::run_prompt(const AttnIn& op) {
  prepare_prompt(op.norm);
  HeadsArguments a = heads_of(op, prompt_products(op.input));
  a.pass = prompt_view_;
  a.q_half = true;
  finish_heads(a, prompt_.tokens, stream_);
}

void Network::run_prompt(const Attend& op) {
  PromptAttention a;
  a.pass = prompt_view_;
  a.tables = tables_;
  a.pool = op.pool;
  a.tiles = reinterpret_cast<const QueryTile*>(prompt_inputs() + 3 * prompt_.tokens + prompt_.logit_rows);
  a.q = q_.as();
  a.out = prompt_activations(op.op.q_heads * op.op.head_dim);
  a.q_heads = op.op.q_heads;
  a.window = op.op.window;
  a.scale = op.op.scale;
  a.softcap = op.op.softcap;
  prompt_attend(a, prompt_.tiles, stream_);
}

void Network::run_prompt(const Project& op) {
  project_prompt(op, prompt_activations(op.matrix->shape.cols));
}

void Network::project_prompt(const Project& op, const DenseActivations& x) {
  pending_ = prompt_product(*op.matrix, x, prompts_.pending.as<float>());
  pending_of_ = &op;
}

void Network::run_prompt(const Mlp& op) {
  prepare_prompt(op.norm, op.gate_bound);
  if (op.gate_bound > 0) {
    const TileMatrix& matrix = *op.input.matrices[0];
    const DenseActivations out = gated_activations(op.down.matrix->shape.cols);
    multiply_dense(
        {matrix, prompt_activations(matrix.shape.cols), nullptr, prompt_.tokens, 0, {out, op.op.activation}},
        stream_);
    return project_prompt(op.down, out);
  }
  const std::vector<Partials> sums = prompt_products(op.input);
  GateArguments a;
  a.gate = {sums[0], 0, op.gate_bias};
  a.up = {op.interleaved ? sums[0] : sums[1], op.interleaved ? 8 : 0, op.up_bias};
  a.interleaved = op.interleaved;
  a.activation = op.op.activation;
  a.width = op.down.matrix->shape.cols;
  prompt_gate(a, prompt_activations(a.width), prompt_.tokens, stream_);
  run_prompt(op.down);
}

void Network::run_prompt(const Head& op) {
  const int32_t* tokens_of = prompt_inputs() + 3 * prompt_.tokens;
  const Partials pending = pending_;
  const Project* pending_of = pending_of_;
  for (int32_t first = 0; first < prompt_.logit_rows; first += kPassRows) {
    const int32_t rows = std::min(prompt_.logit_rows - first, kPassRows);
    pending_ = pending;
    pending_of_ = pending_of;
    prepare(op.norm, {op.matrix->shape}, rows, tokens_of + first);
    finish(op, rows, prompt_logits_ + static_cast<size_t>(first) * static_cast<size_t>(plan_.vocab));
  }
}

}  // namespace penstock::exec::cuda
