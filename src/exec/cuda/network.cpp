#include "exec/cuda/network.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "exec/cuda/kv_layout.h"
#include "exec/cuda/network_memory.h"
#include "exec/cuda/sampling.h"

namespace penstock::exec::cuda {

using base::Code;
using base::Error;

MemoryPlan Network::measure(const models::Plan& plan, const ops::WeightTable& weights, const Limits& limits) {
  return plan_memory(plan, weights, limits);
}

Network::Network(const models::Plan& plan, const ops::WeightTable& weights, const Limits& limits)
    : plan_(plan), weights_(weights), limits_(limits) {
  WeightLoader loader(limits.exact);
  loader_ = &loader;
  const size_t element = limits.exact ? 4 : 2;
  for (const models::KvLayer& layer : plan.kv_layers) {
    const auto& group = plan.kv_groups[static_cast<size_t>(layer.group)];
    KvLayerPool pool;
    pool.half_precision = !limits.exact;
    pool.group = layer.group;
    pool.kv_heads = group.kv_heads;
    pool.dim = group.head_dim;
    const size_t bytes = static_cast<size_t>(limits.n_blocks[static_cast<size_t>(layer.group)]) *
                         static_cast<size_t>(group.kv_heads * kBlockTokens * group.head_dim) * element;
    for (void** at : {&pool.keys, &pool.values}) {
      pools_.push_back(Memory::device(bytes));
      check(cudaMemset(pools_.back().as(), 0, bytes), "clear the cache");
      *at = pools_.back().as();
    }
    layers_.push_back(pool);
  }
  for (const ops::Operation& operation : plan.operations) load_operation(operation, weights, loader);
  loader_ = nullptr;
  allocate();
}

Network::~Network() = default;

const TileMatrix* Network::stack(const Stack& parts, WeightLoader& loader) {
  matrices_.push_back(std::make_unique<DeviceMatrix>(loader.load(parts)));
  return &matrices_.back()->tiles;
}

/// Stacks of equal class become one, in order; others share prepared activations where they can.
Network::Input Network::make_input(const std::vector<Stack>& stacks, WeightLoader& loader) {
  Input input;
  for (const Stack& own : stacks) {
    const TileMatrix* matrix = stack(own, loader);
    input.matrices.push_back(matrix);
    // The layout of activations depends on the cut of the columns too.
    const auto same = [&](const TileShape& s) {
      return s.of == matrix->shape.of && s.cols == matrix->shape.cols && s.slices == matrix->shape.slices;
    };
    const auto it = std::find_if(input.outputs.begin(), input.outputs.end(), same);
    input.output_of.push_back(static_cast<int32_t>(it - input.outputs.begin()));
    if (it == input.outputs.end()) input.outputs.push_back(matrix->shape);
  }
  return input;
}

const float* Network::vector(ops::WeightId id, float offset) {
  if (id == ops::kNoWeight) return nullptr;
  vectors_.push_back(loader_->load_vector(weights_[static_cast<size_t>(id)], offset));
  return vectors_.back().as<float>();
}

Network::Norm Network::norm(const ops::Norm& norm) {
  return {vector(norm.weight, norm.offset), norm.eps};
}

KvLayerPool Network::pool_of(int32_t kv_layer) const {
  return layers_[static_cast<size_t>(kv_layer)];
}

void Network::load_operation(const ops::Operation& operation, const ops::WeightTable& weights,
                             WeightLoader& loader) {
  const auto at = [&](ops::WeightId id) { return &weights[static_cast<size_t>(id)]; };
  const auto of = [&](ops::WeightId id) { return class_of(*at(id), limits_.exact); };
  const auto single = [&](ops::WeightId id) {
    auto& known = single_[id];
    if (known == nullptr) known = stack({{at(id)}}, loader);
    return known;
  };
  if (const auto* op = std::get_if<ops::Embed>(&operation)) {
    operations_.push_back(Embed{*op, single(op->table)});
  } else if (const auto* in = std::get_if<ops::AttnIn>(&operation)) {
    AttnIn out{*in, norm(in->norm), norm(in->q_norm), norm(in->k_norm), {}, {}, pool_of(in->kv_layer)};
    const bool same = of(in->q.weight) == of(in->k.weight) && of(in->q.weight) == of(in->v.weight);
    std::vector<Stack> stacks;
    if (same)
      stacks = {{{at(in->q.weight), at(in->k.weight), at(in->v.weight)}}};
    else
      stacks = {{{at(in->q.weight)}}, {{at(in->k.weight)}}, {{at(in->v.weight)}}};
    out.input = make_input(stacks, loader);
    out.bias[0] = vector(in->q.bias);
    out.bias[1] = vector(in->k.bias);
    out.bias[2] = vector(in->v.bias);
    value_exponents_[in->kv_layer] = bound_values(out);
    operations_.push_back(std::move(out));
  } else if (const auto* attention = std::get_if<ops::Attend>(&operation)) {
    Attend out{*attention, pool_of(attention->kv_layer)};
    out.exponent = value_exponents_[attention->kv_layer];
    const std::vector<int32_t> all(kExponents, out.exponent);
    vectors_.push_back(Memory::device(all.size() * sizeof(int32_t)));
    out.exponents = vectors_.back().as<int32_t>();
    check(cudaMemcpy(vectors_.back().as(), all.data(), vectors_.back().bytes(), cudaMemcpyHostToDevice),
          "copy exponents");
    operations_.push_back(out);
  } else if (const auto* project = std::get_if<ops::Project>(&operation)) {
    const Project out{single(project->linear.weight), vector(project->linear.bias), norm(project->post_norm)};
    auto* before = operations_.empty() ? nullptr : std::get_if<Attend>(&operations_.back());
    if (before == nullptr)
      throw Error(Code::kUnsupported, "[exec.cuda.load] expected attention before every projection");
    before->output = out.matrix->shape;
    operations_.push_back(out);
  } else if (const auto* mlp = std::get_if<ops::Mlp>(&operation)) {
    Mlp out;
    out.op = *mlp;
    out.norm = norm(mlp->norm);
    out.interleaved = of(mlp->gate.weight) == of(mlp->up.weight);
    std::vector<Stack> stacks;
    if (out.interleaved)
      stacks = {{{at(mlp->gate.weight), at(mlp->up.weight)}, true}};
    else
      stacks = {{{at(mlp->gate.weight)}}, {{at(mlp->up.weight)}}};
    out.input = make_input(stacks, loader);
    out.gate_bias = vector(mlp->gate.bias);
    out.up_bias = vector(mlp->up.bias);
    out.down = {single(mlp->down.weight), vector(mlp->down.bias), norm(mlp->post_norm)};
    bound_gate(out);
    operations_.push_back(std::move(out));
  } else if (const auto* head = std::get_if<ops::Head>(&operation)) {
    operations_.push_back(Head{*head, norm(head->norm), single(head->weight)});
  } else {
    throw Error(Code::kUnsupported,
                std::string("[exec.cuda.load] the operation ") + ops::name(operation) + " is not known here");
  }
}

/// One shape of gated activations for the whole network; layers of another gate in a kernel of their own.
void Network::allocate_gated(const TileShape& shape) {
  if (gated_shape_.cols != 0) return;
  gated_shape_ = shape;
  for (int32_t i = 0; i < 5; ++i) {
    gated_[i] = Memory::device(activation_bytes(shape, (1 << i) / 2));
    check(cudaMemset(gated_[i].as(), 0, gated_[i].bytes()), "clear");
  }
}

void Network::allocate() {
  const PassMemory sizes = pass_memory(plan_, weights_, limits_);
  exponents_ = Memory::device(2 * kExponents * sizeof(int32_t));  // of x, of what gates store, room to read
  check(cudaMemset(exponents_.as(), 0, exponents_.bytes()), "clear");
  inputs_ = Memory::device(sizeof(PassInputs));
  const auto slots = static_cast<size_t>(limits_.max_slots);
  last_tokens_ = Memory::device(slots * sizeof(int32_t));
  check(cudaMemset(last_tokens_.as(), 0, slots * sizeof(int32_t)), "clear");
  tables_.groups = static_cast<int32_t>(plan_.kv_groups.size());
  tables_.per_group = sizes.blocks_per_slot;
  const size_t entries =
      slots * plan_.kv_groups.size() * static_cast<size_t>(sizes.blocks_per_slot) * sizeof(int32_t);
  tables_memory_ = Memory::device(entries);
  check(cudaMemset(tables_memory_.as(), 0, entries), "clear");
  tables_.blocks = tables_memory_.as<int32_t>();
  max_partitions_ = sizes.partitions;
  hidden_ = Memory::device(sizes.hidden);
  q_ = Memory::device(sizes.q);
  pieces_ = Memory::device(sizes.pieces);
  piece_sums_ = Memory::device(sizes.piece_sums);
  logits_ = Memory::device(sizes.logits);
  for (auto& buffer : activations_) {
    buffer = Memory::device(sizes.activations);
    check(cudaMemset(buffer.as(), 0, sizes.activations), "clear");
  }
  for (auto& buffer : sums_) buffer = Memory::device(sizes.sums);
  rope_memory_ = Memory::device(sizes.ropes);
  float* at = rope_memory_.as<float>();
  for (const ops::Rope& rope : plan_.ropes) {
    Memory freqs = Memory::device(rope.inv_freq.size() * sizeof(float));
    check(cudaMemcpy(freqs.as(), rope.inv_freq.data(), rope.inv_freq.size() * sizeof(float),
                     cudaMemcpyHostToDevice),
          "copy rope");
    rope_freqs_.push_back(std::move(freqs));
    const auto half = static_cast<size_t>(rope.dims / 2) * static_cast<size_t>(sizes.rows);
    ropes_.push_back({at, at + half, rope.dims, rope.interleaved});
    at += 2 * half;
  }
  prepare_linear();
  const PromptMemory prompts = prompt_memory(plan_, limits_);
  if (!has_warpgroups() || prompts.tokens == 0) return;
  prompts_.tokens = prompts.tokens;
  prompts_.inputs = Memory::device(prompts.inputs);
  prompts_.x = Memory::device(prompts.x);
  check(cudaMemset(prompts_.x.as(), 0, prompts.x), "clear");
  prompts_.exponents = Memory::device(prompts.exponents);
  prompts_.sums = Memory::device(prompts.sums);
  prompts_.pending = Memory::device(prompts.pending);
}

void Network::run(const PassShape& shape, cudaStream_t stream) {
  if (shape.partitions > max_partitions_)
    throw Error(Code::kInternal, "[exec.cuda.forward] expected positions below the context of the limits");
  shape_ = shape;
  stream_ = stream;
  pending_ = {};
  pending_of_ = nullptr;
  turn_tables(view(), shape.tokens);
  for (const Operation& operation : operations_) std::visit([this](const auto& op) { run(op); }, operation);
}

void Network::turn_tables(PassView view, int32_t tokens) {
  for (size_t r = 0; r < ropes_.size(); ++r)
    turn_table(view, rope_freqs_[r].as<float>(), plan_.ropes[r].magnitude, ropes_[r], tokens, stream_);
}

ActivationOut Network::activations(const TileShape& shape, int32_t index, int32_t rows) const {
  return {activations_[index].as<uint8_t>(), exponents_.as<int32_t>(), shape, column_tiles(rows)};
}

Activations Network::normed(int32_t index) const {
  return {activations_[index].as(), exponents_.as<int32_t>()};
}

/// What the projection ahead left to add, and the norm behind it.
ResidualNorm Network::take_pending(const Norm& norm) {
  ResidualNorm a;
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
  pending_ = {};
  pending_of_ = nullptr;
  return a;
}

void Network::prepare(const Norm& norm, const std::vector<TileShape>& outputs, int32_t rows,
                      const int32_t* tokens_of, float gate_bound) {
  NormArguments a{take_pending(norm)};
  a.tokens_of = tokens_of;
  for (const TileShape& shape : outputs)
    a.outputs[a.n_outputs] = activations(shape, a.n_outputs, rows), ++a.n_outputs;
  a.gate_bound = gate_bound;
  a.gate_exponents = exponents_.as<int32_t>() + kPassRows;
  norm_rows(a, rows, stream_);
}

/// Of activations that prepare() made.
Partials Network::normed_product(const TileMatrix& matrix, int32_t input, int32_t rows, int32_t buffer) {
  return multiply(matrix, normed(input), rows, sums_[buffer].as<float>(), stream_);
}

void Network::run(const Embed& op) {
  embed({view(), last_tokens(), *op.matrix, op.op.scale, hidden_.as<float>()}, shape_.tokens, stream_);
}

void Network::run(const AttnIn& op) {
  prepare(op.norm, op.input.outputs, shape_.tokens, nullptr);
  std::vector<Partials> sums;
  for (size_t i = 0; i < op.input.matrices.size(); ++i)
    sums.push_back(
        normed_product(*op.input.matrices[i], op.input.output_of[i], shape_.tokens, static_cast<int32_t>(i)));
  HeadsArguments a = heads_of(op, sums);
  a.pass = view();
  finish_heads(a, shape_.tokens, stream_);
}

HeadsArguments Network::heads_of(const AttnIn& op, const std::vector<Partials>& sums) const {
  const int32_t q_width = op.op.q_heads * op.op.head_dim, kv_width = op.op.kv_heads * op.op.head_dim;
  const bool stacked = sums.size() == 1;
  HeadsArguments a;
  a.tables = tables_;
  a.q = {sums[0], 0, op.bias[0]};
  a.k = {sums[stacked ? 0 : 1], stacked ? q_width : 0, op.bias[1]};
  a.v = {sums[stacked ? 0 : 2], stacked ? q_width + kv_width : 0, op.bias[2]};
  a.q_norm = op.q_norm.weight;
  a.k_norm = op.k_norm.weight;
  a.q_eps = op.q_norm.eps;
  a.k_eps = op.k_norm.eps;
  if (op.op.rope >= 0) a.rope = ropes_[static_cast<size_t>(op.op.rope)];
  a.pool = op.pool;
  a.q_heads = op.op.q_heads;
  a.q_out = q_.as();
  return a;
}

void Network::run(const Attend& op) {
  AttendArguments a;
  a.pass = view();
  a.tables = tables_;
  a.pool = op.pool;
  a.q = q_.as<float>();
  a.pieces = pieces_.as<float>();
  a.piece_sums = piece_sums_.as<float2>();
  a.q_heads = op.op.q_heads;
  a.partitions = shape_.partitions;
  a.window = op.op.window;
  a.scale = op.op.scale;
  a.softcap = op.op.softcap;
  a.out_scale = std::exp2(static_cast<float>(-op.exponent));
  attend(a, shape_.tokens, stream_);
  if (a.pool.dim % kGroupCols == 0 && can_merge(op.output, shape_.tokens)) {
    attended_ = a;
    x_ = {nullptr, op.exponents, &attended_};
    return;
  }
  ActivationOut out = activations(op.output, 0, shape_.tokens);
  out.exponents = nullptr;
  merge_pieces(a, out, shape_.tokens, stream_);
  x_ = {out.data, op.exponents};
}

void Network::run(const Project& op) {
  project(op, x_);
}

void Network::project(const Project& op, const Activations& x) {
  pending_ = multiply(*op.matrix, x, shape_.tokens, sums_[kMaxOutputs].as<float>(), stream_);
  pending_of_ = &op;
}

void Network::run(const Mlp& op) {
  const int32_t tokens = shape_.tokens;
  int32_t* gate_exponents = exponents_.as<int32_t>() + kPassRows;
  prepare(op.norm, op.input.outputs, tokens, nullptr, op.gated ? op.gate_bound : 0);
  if (op.gated) {
    const int32_t tiles = column_tiles(tokens);
    uint8_t* out = gated_[tiles == 8 ? 4 : tiles == 4 ? 3 : tiles].as<uint8_t>();
    multiply_gated(*op.input.matrices[0], normed(0), tokens, {out, op.down.matrix->shape, op.op.activation},
                   stream_);
    return project(op.down, {out, gate_exponents});
  }
  const Partials gate = normed_product(*op.input.matrices[0], 0, tokens, 0);
  GateArguments a;
  a.gate = {gate, 0, op.gate_bias};
  a.up = {op.interleaved ? gate : normed_product(*op.input.matrices[1], op.input.output_of[1], tokens, 1),
          op.interleaved ? 8 : 0, op.up_bias};
  a.interleaved = op.interleaved;
  a.activation = op.op.activation;
  a.width = static_cast<int32_t>(plan_.weights[static_cast<size_t>(op.op.gate.weight)].rows);
  a.output = activations(op.down.matrix->shape, 0, tokens);
  a.output.exponents = gate_exponents;
  gate_rows(a, tokens, stream_);
  project(op.down, {a.output.data, gate_exponents});
}

void Network::run(const Head& op) {
  if (shape_.logit_rows == 0) return;
  prepare(op.norm, {op.matrix->shape}, shape_.logit_rows, inputs()->logit_tokens);
  finish(op, shape_.logit_rows, logits_.as<float>());
}

/// Products that are logits as they come are stored as such.
void Network::finish(const Head& op, int32_t rows, float* logits) {
  const TileShape& shape = op.matrix->shape;
  const int32_t width = shape.of.kind == TileKind::kFloat ? shape.rows : shape.padded_rows();
  if (shape.slices == 1 && width == plan_.vocab && op.op.softcap <= 0) {
    multiply(*op.matrix, normed(0), rows, logits, stream_);
    return;
  }
  finish_logits(normed_product(*op.matrix, 0, rows, 0), op.op.softcap, logits, rows, plan_.vocab, stream_);
}

}  // namespace penstock::exec::cuda
