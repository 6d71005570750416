// Projections to queries, keys and values, their norms and rotation, and the append to the cache.
#include <array>
#include <span>

#include "exec/cpu/operations.h"
#include "ops/key_divisors.h"

namespace penstock::exec::cpu {

namespace {

/// [kv_heads * head_dim], empty where keys are not quantised.
std::vector<float> divisors_of(const ops::AttnIn& op, const LoadContext& load) {
  if (ops::key_bits(load.kv_format) == 0) return {};
  const ops::Rope* rope = op.rope < 0 ? nullptr : &load.plan.ropes[static_cast<size_t>(op.rope)];
  return ops::key_divisors(op, rope, load.weights.table());
}

class AttnInOperation final : public CpuOperation {
 public:
  AttnInOperation(const ops::AttnIn& op, const LoadContext& load)
      : op_(op),
        q_(load.weights.matrix(op.q.weight)),
        k_(load.weights.matrix(op.k.weight)),
        v_(load.weights.matrix(op.v.weight)),
        q_bias_(load.weights.vector(op.q.bias)),
        k_bias_(load.weights.vector(op.k.bias)),
        v_bias_(load.weights.vector(op.v.bias)),
        norm_(load_norm(op.norm, load)),
        q_norm_(load_norm(op.q_norm, load)),
        k_norm_(load_norm(op.k_norm, load)),
        divisors_(divisors_of(op, load)),
        groups_(groups_of({q_, k_, v_}, load.exact)),
        group_(load.plan.kv_layers[static_cast<size_t>(op.kv_layer)].group) {}

  GroupSet groups() const override { return groups_; }

  void run(Context& context, int32_t thread) const override {
    const int32_t m = context.step.n_tokens();
    const int64_t kv_width = int64_t{op_.kv_heads} * op_.head_dim;
    const ActivationRows& rows = prepare(
        context, thread, {context.buffer(op_.in), context.width(op_.in), m, &norm_, nullptr, groups_});
    const std::array<LinearPart, 3> parts = {{
        {q_, {context.buffer(op_.out_q), context.width(op_.out_q), bias_of(q_bias_)}},
        {k_, {context.keys.data(), kv_width, bias_of(k_bias_)}},
        {v_, {context.values.data(), kv_width, bias_of(v_bias_)}},
    }};
    multiply(context, thread, parts, rows, m);
    context.pool->barrier(thread);
    const Range queries = context.share(int64_t{m} * op_.q_heads, thread);
    for (int64_t i = queries.first; i < queries.last; ++i)
      finish_query(context, thread, i / op_.q_heads, i % op_.q_heads);
    const Range keys = context.share(int64_t{m} * op_.kv_heads, thread);
    for (int64_t i = keys.first; i < keys.last; ++i)
      finish_key(context, thread, i / op_.kv_heads, static_cast<int32_t>(i % op_.kv_heads));
    context.pool->barrier(thread);
  }

 private:
  void finish_query(Context& context, int32_t thread, int64_t token, int64_t head) const {
    float* q = context.buffer(op_.out_q) + token * context.width(op_.out_q) + head * op_.head_dim;
    turn(context, thread, q_norm_, token, q);
    const float* by = divisors_.data() + head / (op_.q_heads / op_.kv_heads) * op_.head_dim;
    if (!divisors_.empty())
      for (int32_t d = 0; d < op_.head_dim; ++d) q[d] *= by[d];
  }

  /// Stores the key's value too.
  void finish_key(Context& context, int32_t thread, int64_t token, int32_t head) const {
    const int64_t at = (token * op_.kv_heads + head) * op_.head_dim;
    float* key = context.keys.data() + at;
    turn(context, thread, k_norm_, token, key);
    const float* by = divisors_.data() + int64_t{head} * op_.head_dim;
    if (!divisors_.empty())
      for (int32_t d = 0; d < op_.head_dim; ++d) key[d] /= by[d];
    const auto t = static_cast<size_t>(token);
    const int32_t position = context.step.positions[t];
    const auto& table =
        context.tables[static_cast<size_t>(context.step.slots[t])][static_cast<size_t>(group_)];
    const int32_t block = table[static_cast<size_t>(position / kTileKeys)];
    context.cache.store(*context.kernels, {op_.kv_layer, block, head, position % kTileKeys}, key,
                        context.values.data() + at);
  }

  void turn(Context& context, int32_t thread, const NormWeights& norm, int64_t token, float* x) const {
    const Kernels& kernels = *context.kernels;
    if (norm.present()) norm.apply(kernels, x, op_.head_dim, x);
    if (op_.rope < 0) return;
    const ops::Rope& rope = context.plan->ropes[static_cast<size_t>(op_.rope)];
    const int64_t half = rope.dims / 2;
    const float* cos = context.cos[static_cast<size_t>(op_.rope)].data() + token * half;
    const float* sin = context.sin[static_cast<size_t>(op_.rope)].data() + token * half;
    if (!rope.interleaved) return kernels.rotate(x, cos, sin, half);
    float* split = context.threads[static_cast<size_t>(thread)].head.data();
    for (int64_t i = 0; i < half; ++i) split[i] = x[2 * i], split[half + i] = x[2 * i + 1];
    kernels.rotate(split, cos, sin, half);
    for (int64_t i = 0; i < half; ++i) x[2 * i] = split[i], x[2 * i + 1] = split[half + i];
  }

  const ops::AttnIn op_;
  const PackedMatrix *q_, *k_, *v_;
  const std::vector<float> q_bias_, k_bias_, v_bias_;
  const NormWeights norm_, q_norm_, k_norm_;
  const std::vector<float> divisors_;
  const GroupSet groups_;
  const int32_t group_;
};

}  // namespace

std::unique_ptr<CpuOperation> make_attn_in(const ops::AttnIn& op, const LoadContext& load) {
  return std::make_unique<AttnInOperation>(op, load);
}

}  // namespace penstock::exec::cpu
