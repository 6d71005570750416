// Prompt passes: matrices are multiplied in float16 on warpgroup instructions. The head,
// whose rows are few, is that of run().
#include <algorithm>

#include "exec/cuda/network.h"
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

void Network::prepare_prompt(const Norm& norm) {
  PromptNorm a;
  a.hidden = hidden_.as<float>();
  a.width = plan_.hidden;
  a.pending = pending_;
  if (pending_of_ != nullptr) {
    a.bias = pending_of_->bias;
    a.post_norm = pending_of_->post_norm.weight;
    a.post_eps = pending_of_->post_norm.eps;
  }
  a.norm = norm.weight;
  a.eps = norm.eps;
  a.out = prompt_activations(plan_.hidden);
  prompt_norm(a, prompt_.tokens, stream_);
  pending_ = {};
  pending_of_ = nullptr;
}

Partials Network::prompt_product(const TileMatrix& matrix, float* out) {
  multiply_dense({matrix, prompt_activations(matrix.shape.cols), out, prompt_.tokens}, stream_);
  Partials sums;
  sums.data = out;
  sums.width = matrix.shape.padded_rows();
  return sums;
}

std::vector<Partials> Network::prompt_products(const Input& input) {
  std::vector<Partials> sums;
  float* out = prompts_.sums.as<float>();
  for (const TileMatrix* matrix : input.matrices) {
    sums.push_back(prompt_product(*matrix, out));
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
  finish_heads(a, prompt_.tokens, stream_);
}

void Network::run_prompt(const Attend& op) {
  PromptAttention a;
  a.pass = prompt_view_;
  a.tables = tables_;
  a.pool = op.pool;
  a.tiles = reinterpret_cast<const QueryTile*>(prompt_inputs() + 3 * prompt_.tokens + prompt_.logit_rows);
  a.q = q_.as<float>();
  a.out = prompts_.attended.as<float>();
  a.q_heads = op.op.q_heads;
  a.window = op.op.window;
  a.scale = op.op.scale;
  a.softcap = op.op.softcap;
  prompt_attend(a, prompt_.tiles, stream_);
  prompt_pack(a.out, prompt_activations(op.op.q_heads * op.op.head_dim), prompt_.tokens, stream_);
}

void Network::run_prompt(const Project& op) {
  pending_ = prompt_product(*op.matrix, prompts_.pending.as<float>());
  pending_of_ = &op;
}

void Network::run_prompt(const Mlp& op) {
  prepare_prompt(op.norm);
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
    finish_logits(normed_product(*op.matrix, 0, rows, 0), op.op.softcap,
                  prompt_logits_ + static_cast<size_t>(first) * static_cast<size_t>(plan_.vocab), rows,
                  plan_.vocab, stream_);
  }
}

}  // namespace penstock::exec::cuda
