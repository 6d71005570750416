#include "exec/mlx/mlx_executor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <mlx/mlx.h>

#include "base/error.h"
#include "exec/block_table.h"
#include "exec/host_sampling.h"
#include "exec/mlx/mlx_matrix.h"
#include "exec/plain_cache.h"

namespace penstock::exec::mlx {
namespace {

namespace mx = ::mlx::core;

mx::Device pick_device() {
  return mx::is_available(mx::Device::gpu) ? mx::Device(mx::Device::gpu) : mx::Device(mx::Device::cpu);
}

mx::array integers(const std::vector<int32_t>& values) {
  return mx::array(values.begin(), mx::Shape{static_cast<int>(values.size())}, mx::int32);
}

mx::array scalar(float value) {
  return mx::array(value, mx::float32);
}

/// 0 where the query at a position sees the key at a position, minus infinity elsewhere. [queries, keys]
mx::array mask(int32_t first_query, int32_t n_queries, int32_t first_key, int32_t n_keys, int32_t window) {
  const auto q = mx::reshape(mx::arange(first_query, first_query + n_queries, 1, mx::int32), {n_queries, 1});
  const auto k = mx::reshape(mx::arange(first_key, first_key + n_keys, 1, mx::int32), {1, n_keys});
  auto seen = mx::less_equal(k, q);
  if (window > 0) seen = mx::logical_and(seen, mx::greater(k, mx::subtract(q, mx::array(window, mx::int32))));
  return mx::where(seen, scalar(0), scalar(-std::numeric_limits<float>::infinity()));
}

}  // namespace

struct MlxExecutor::State {
  struct Step {
    std::vector<LogitRow> rows;
    std::vector<float> logits;  // [rows, vocab]
    OwnedOutput output;
  };

  const models::Plan* plan = nullptr;
  Limits limits;
  int32_t block_tokens = 0;
  std::vector<MlxMatrix> weights;
  std::vector<mx::array> rope_freqs;    // MLX wants divisors, not inverse frequencies
  std::vector<mx::array> keys, values;  // of each KV layer: [blocks * block_tokens, kv_heads * head_dim]
  std::vector<std::vector<std::vector<int32_t>>> tables;  // [slot][kv_group][index]
  std::vector<SlotTokens> tokens;                         // of each slot
  std::map<Ticket, Step> steps;
  Ticket next_ticket = 1;

  std::vector<mx::array> buffers;  // of the step: [T, width]

  mx::array& buffer(ops::BufferId id) { return buffers[static_cast<size_t>(id)]; }
  const MlxMatrix& weight(ops::WeightId id) const { return weights[static_cast<size_t>(id)]; }

  mx::array normed(const ops::Norm& norm, const mx::array& x) const {
    if (!norm.present()) return x;
    auto scale = weight(norm.weight).vector();
    if (norm.offset != 0) scale = mx::add(scale, scalar(norm.offset));
    return mx::fast::rms_norm(x, scale, norm.eps);
  }

  mx::array linear(const ops::Linear& linear, const mx::array& x) const {
    const auto y = weight(linear.weight).multiply(x);
    return linear.bias == ops::kNoWeight ? y : mx::add(y, weight(linear.bias).vector());
  }

  int32_t cell(int32_t slot, int32_t group, int32_t position) const {
    const auto& table = tables[static_cast<size_t>(slot)][static_cast<size_t>(group)];
    return table[static_cast<size_t>(position / block_tokens)] * block_tokens + position % block_tokens;
  }

  mx::array turn(const mx::array& heads, int32_t rope, int32_t position) const {
    if (rope < 0) return heads;
    const ops::Rope& spec = plan->ropes[static_cast<size_t>(rope)];
    auto turned = mx::fast::rope(heads, spec.dims, spec.interleaved, std::nullopt, 1.0f, position,
                                 rope_freqs[static_cast<size_t>(rope)]);
    if (spec.magnitude == 1) return turned;
    const int dim = turned.shape(-1);
    std::vector<float> factors(static_cast<size_t>(dim), 1.0f);
    std::fill_n(factors.begin(), spec.dims, spec.magnitude);
    return mx::multiply(turned, mx::array(factors.begin(), mx::Shape{dim}, mx::float32));
  }

  /// [n, heads * dim] to [1, heads, n, dim] for one row, normed and turned.
  mx::array heads_of(const mx::array& rows, const ops::AttnIn& op, const ops::Norm& norm,
                     const Row& row) const {
    auto x = mx::reshape(rows, {1, row.n_tokens, -1, op.head_dim});
    x = mx::transpose(normed(norm, x), {0, 2, 1, 3});
    return turn(x, op.rope, row.position);
  }

  void attn_in(const ops::AttnIn& op, const Batch& batch) {
    const auto x = normed(op.norm, buffer(op.in));
    const auto q = linear(op.q, x), k = linear(op.k, x), v = linear(op.v, x);
    std::vector<mx::array> turned_q, turned_k;
    std::vector<int32_t> cells;
    const int32_t group = plan->kv_layers[static_cast<size_t>(op.kv_layer)].group;
    for (const Row& row : batch.rows) {
      const int first = row.first_token, last = row.first_token + row.n_tokens;
      const auto back = [&](const mx::array& heads) {
        return mx::reshape(mx::transpose(heads, {0, 2, 1, 3}), {row.n_tokens, -1});
      };
      turned_q.push_back(back(heads_of(mx::slice(q, {first, 0}, {last, q.shape(1)}), op, op.q_norm, row)));
      turned_k.push_back(back(heads_of(mx::slice(k, {first, 0}, {last, k.shape(1)}), op, op.k_norm, row)));
      for (int32_t i = 0; i < row.n_tokens; ++i) cells.push_back(cell(row.slot, group, row.position + i));
    }
    buffer(op.out_q) = mx::concatenate(turned_q, 0);
    append(keys[static_cast<size_t>(op.kv_layer)], cells, mx::concatenate(turned_k, 0));
    append(values[static_cast<size_t>(op.kv_layer)], cells, v);
  }

  static void append(mx::array& pool, const std::vector<int32_t>& cells, const mx::array& rows) {
    pool = mx::scatter(pool, integers(cells), mx::reshape(rows, {rows.shape(0), 1, rows.shape(1)}), 0);
  }

  mx::array attend_row(const ops::Attend& op, const Row& row) {
    const int32_t last = row.position + row.n_tokens;
    const int32_t first = op.window > 0 ? std::max(0, row.position - op.window + 1) : 0;
    const int32_t group = plan->kv_layers[static_cast<size_t>(op.kv_layer)].group;
    std::vector<int32_t> cells;
    for (int32_t p = first; p < last; ++p) cells.push_back(cell(row.slot, group, p));
    const auto ids = integers(cells);
    const auto heads = [&](const mx::array& rows, int count) {
      return mx::transpose(mx::reshape(rows, {1, rows.shape(0), count, op.head_dim}), {0, 2, 1, 3});
    };
    const auto& all_q = buffer(op.in_q);
    const auto q = heads(
        mx::slice(all_q, {row.first_token, 0}, {row.first_token + row.n_tokens, all_q.shape(1)}), op.q_heads);
    const auto k = heads(mx::take(keys[static_cast<size_t>(op.kv_layer)], ids, 0), op.kv_heads);
    const auto v = heads(mx::take(values[static_cast<size_t>(op.kv_layer)], ids, 0), op.kv_heads);
    const auto seen = mask(row.position, row.n_tokens, first, last - first, op.window);
    const auto o = op.softcap > 0 ? capped_attention(op, q, k, v, seen)
                                  : mx::fast::scaled_dot_product_attention(q, k, v, op.scale, "array", seen);
    return mx::reshape(mx::transpose(o, {0, 2, 1, 3}), {row.n_tokens, -1});
  }

  static mx::array capped_attention(const ops::Attend& op, const mx::array& q, const mx::array& k,
                                    const mx::array& v, const mx::array& seen) {
    const int shared = op.q_heads / op.kv_heads;
    const auto keys = mx::repeat(k, shared, 1), values = mx::repeat(v, shared, 1);
    auto scores =
        mx::multiply(mx::matmul(q, mx::transpose(keys, {0, 1, 3, 2})), scalar(op.scale / op.softcap));
    scores = mx::add(mx::multiply(mx::tanh(scores), scalar(op.softcap)), seen);
    return mx::matmul(mx::softmax(scores, -1, true), values);
  }

  void attend(const ops::Attend& op, const Batch& batch) {
    std::vector<mx::array> rows;
    for (const Row& row : batch.rows) rows.push_back(attend_row(op, row));
    buffer(op.out_o) = mx::concatenate(rows, 0);
  }

  void mlp(const ops::Mlp& op) {
    auto& h = buffer(op.residual);
    const auto x = normed(op.norm, h);
    const auto gate = linear(op.gate, x), up = linear(op.up, x);
    h = mx::add(h, normed(op.post_norm, linear(op.down, mx::multiply(activate(op.activation, gate), up))));
  }

  static mx::array activate(ops::Activation activation, const mx::array& x) {
    if (activation == ops::Activation::kSilu) return mx::multiply(x, mx::sigmoid(x));
    const auto half = mx::multiply(x, scalar(0.5f));
    if (activation == ops::Activation::kGelu) {
      return mx::multiply(half, mx::add(scalar(1), mx::erf(mx::multiply(x, scalar(0.70710678f)))));
    }
    const auto cube = mx::multiply(mx::multiply(x, x), x);
    const auto inner = mx::multiply(mx::add(x, mx::multiply(cube, scalar(0.044715f))), scalar(0.79788456f));
    return mx::multiply(half, mx::add(scalar(1), mx::tanh(inner)));
  }

  void head(const ops::Head& op, const Batch& batch, Step& step) {
    std::vector<int32_t> wanted;
    for (const Row& row : batch.rows) {
      for (int32_t i = row.n_tokens - row.n_logits; i < row.n_tokens; ++i)
        wanted.push_back(row.first_token + i);
    }
    if (wanted.empty()) return;
    auto logits = weight(op.weight).multiply(normed(op.norm, mx::take(buffer(op.in), integers(wanted), 0)));
    if (op.softcap > 0)
      logits = mx::multiply(mx::tanh(mx::multiply(logits, scalar(1 / op.softcap))), scalar(op.softcap));
    logits = mx::contiguous(logits);
    mx::eval(logits);
    step.logits.assign(logits.data<float>(), logits.data<float>() + logits.size());
  }

  void run(const Batch& batch, Step& step) {
    std::vector<int32_t> ids(batch.tokens.begin(), batch.tokens.end());
    for (const Row& row : batch.rows) {
      for (int32_t i = row.first_token; i < row.first_token + row.n_tokens; ++i) {
        if (ids[static_cast<size_t>(i)] == kOnDevice)
          ids[static_cast<size_t>(i)] = tokens[static_cast<size_t>(row.slot)].last();
      }
    }
    buffers.assign(plan->buffers.size(), scalar(0));
    for (const auto& operation : plan->operations) {
      if (const auto* embed = std::get_if<ops::Embed>(&operation)) {
        buffer(embed->out) = mx::multiply(weight(embed->table).rows(integers(ids)), scalar(embed->scale));
      } else if (const auto* in = std::get_if<ops::AttnIn>(&operation)) {
        attn_in(*in, batch);
      } else if (const auto* attention = std::get_if<ops::Attend>(&operation)) {
        attend(*attention, batch);
      } else if (const auto* project = std::get_if<ops::Project>(&operation)) {
        auto& h = buffer(project->residual);
        h = mx::add(h, normed(project->post_norm, linear(project->linear, buffer(project->in))));
      } else if (const auto* block = std::get_if<ops::Mlp>(&operation)) {
        mlp(*block);
      } else if (const auto* last = std::get_if<ops::Head>(&operation)) {
        head(*last, batch, step);
      } else {
        throw base::Error(base::Code::kUnsupported, std::string("[exec.mlx] the operation ") +
                                                        ops::name(operation) + " is not known here");
      }
    }
    // A prompt chunk without logits still has to fill the cache; evaluated pools keep one owner, so the next
    // append is in place.
    std::vector<mx::array> pools(keys);
    pools.insert(pools.end(), values.begin(), values.end());
    mx::eval(pools);
    buffers.clear();
  }
};

MlxExecutor::MlxExecutor() : state_(std::make_unique<State>()) {
  caps_.name = "mlx";
  caps_.detail = std::string("MLX ") + mx::version() +
                 (pick_device() == mx::Device::gpu ? ", gpu" : ", cpu") + ", float32";
}

MlxExecutor::~MlxExecutor() = default;

MemoryPlan MlxExecutor::measure(const models::Plan& plan, const ops::WeightTable& weights,
                                const Limits& limits) {
  require_plain_cache(limits, "mlx");
  require_generating(plan, "mlx");
  MemoryPlan memory;
  for (const auto& matrix : weights)
    memory.weight_bytes += static_cast<size_t>(matrix.rows * matrix.cols) * 4;
  for (const auto& group : plan.kv_groups) {
    memory.block_bytes.push_back(static_cast<size_t>(group.n_layers) *
                                 static_cast<size_t>(caps_.block_tokens) *
                                 static_cast<size_t>(group.kv_heads * group.head_dim) * 2 * sizeof(float));
  }
  return memory;
}

void MlxExecutor::load(const models::Plan& plan, const ops::WeightTable& weights, const Limits& limits) {
  require_plain_cache(limits, "mlx");
  // MLX compiles its fused CPU kernels with a compiler it finds at run time: a server must not.
  mx::disable_compile();
  mx::set_default_device(pick_device());
  State& state = *state_;
  state.plan = &plan;
  state.limits = limits;
  state.block_tokens = caps_.block_tokens;
  for (const auto& matrix : weights) {
    state.weights.emplace_back(matrix);
    state.weights.back().evaluate();
  }
  for (const auto& rope : plan.ropes) {
    std::vector<float> divisors;
    for (const float f : rope.inv_freq) divisors.push_back(1 / f);
    state.rope_freqs.emplace_back(divisors.begin(), mx::Shape{static_cast<int>(divisors.size())},
                                  mx::float32);
  }
  for (const auto& layer : plan.kv_layers) {
    const auto& group = plan.kv_groups[static_cast<size_t>(layer.group)];
    const int cells = limits.n_blocks[static_cast<size_t>(layer.group)] * caps_.block_tokens;
    for (auto* pools : {&state.keys, &state.values}) {
      pools->push_back(mx::zeros({cells, group.kv_heads * group.head_dim}, mx::float32));
      mx::eval(pools->back());
    }
  }
  state.tables.assign(static_cast<size_t>(limits.max_slots),
                      std::vector<std::vector<int32_t>>(plan.kv_groups.size()));
  state.tokens.assign(static_cast<size_t>(limits.max_slots), {});
}

void MlxExecutor::reset_slot(int32_t slot, std::span<const int32_t> prompt,
                             std::span<const int32_t> generated) {
  for (auto& table : state_->tables[static_cast<size_t>(slot)]) table.clear();
  state_->tokens[static_cast<size_t>(slot)].reset(prompt, generated);
}

Ticket MlxExecutor::forward(const Batch& batch) {
  if (!batch.copies.empty())
    throw base::Error(base::Code::kInternal,
                      "[exec.mlx.forward] expected no copies of blocks, as caps say; got one");
  for (const TableEdit& edit : batch.table_edits) {
    auto& table = state_->tables[static_cast<size_t>(edit.slot)][static_cast<size_t>(edit.kv_group)];
    apply_edit(table, edit);
  }
  State::Step step{logit_rows(batch), {}, {}};
  try {
    state_->run(batch, step);
  } catch (const std::exception& error) {
    throw base::Error(base::Code::kInternal,
                      std::string("[exec.mlx] expected MLX to run the step; got ") + error.what());
  }
  state_->steps.emplace(state_->next_ticket, std::move(step));
  return state_->next_ticket++;
}

void MlxExecutor::sample(Ticket ticket, const SampleBatch& batch) {
  State::Step& step = state_->steps.at(ticket);
  step.output.draw(batch, step.rows, step.logits, {state_->plan->vocab, state_->limits}, state_->tokens);
}

const StepOutput& MlxExecutor::wait(Ticket ticket) {
  return state_->steps.at(ticket).output.view();
}

void MlxExecutor::release(Ticket ticket) {
  state_->steps.erase(ticket);
}

}  // namespace penstock::exec::mlx
