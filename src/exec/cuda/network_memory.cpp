#include "exec/cuda/network_memory.h"

#include <algorithm>
#include <set>

#include "exec/cuda/kv_layout.h"
#include "exec/cuda/linear.h"
#include "exec/cuda/prompt.h"
#include "exec/cuda/rows.h"
#include "exec/cuda/weights.h"

namespace penstock::exec::cuda {
namespace {

constexpr int32_t kMaxPromptTokens = 4096;

/// Every matrix as it may be laid out: alone, and stacked with those that share its input.
std::vector<TileShape> shapes_of(const models::Plan& plan, const ops::WeightTable& weights, bool exact) {
  std::vector<TileShape> shapes;
  const auto add = [&](const std::vector<ops::WeightId>& ids, bool interleaved) {
    Stack stack;
    for (const ops::WeightId id : ids) stack.parts.push_back(&weights[static_cast<size_t>(id)]);
    stack.interleaved = interleaved;
    shapes.push_back(
        make_shape(class_of(*stack.parts.front(), exact), stack.rows(), stack.cols(), interleaved));
  };
  const auto same = [&](ops::WeightId a, ops::WeightId b) {
    return class_of(weights[static_cast<size_t>(a)], exact) ==
           class_of(weights[static_cast<size_t>(b)], exact);
  };
  std::set<ops::WeightId> single;
  const auto add_single = [&](ops::WeightId id) {
    if (single.insert(id).second) add({id}, false);
  };
  for (const ops::Operation& operation : plan.operations) {
    if (const auto* embed = std::get_if<ops::Embed>(&operation)) add_single(embed->table);
    if (const auto* head = std::get_if<ops::Head>(&operation)) add_single(head->weight);
    if (const auto* project = std::get_if<ops::Project>(&operation)) add_single(project->linear.weight);
    if (const auto* in = std::get_if<ops::AttnIn>(&operation)) {
      if (same(in->q.weight, in->k.weight) && same(in->q.weight, in->v.weight))
        add({in->q.weight, in->k.weight, in->v.weight}, false);
      else
        for (const ops::WeightId id : {in->q.weight, in->k.weight, in->v.weight}) add({id}, false);
    }
    if (const auto* mlp = std::get_if<ops::Mlp>(&operation)) {
      add_single(mlp->down.weight);
      if (same(mlp->gate.weight, mlp->up.weight))
        add({mlp->gate.weight, mlp->up.weight}, true);
      else
        for (const ops::WeightId id : {mlp->gate.weight, mlp->up.weight}) add({id}, false);
    }
  }
  return shapes;
}

}  // namespace

size_t activation_bytes(const TileShape& shape, int32_t column_tiles) {
  if (shape.of.kind == TileKind::kFloat) return size_t{kPassRows} * static_cast<size_t>(shape.cols) * 4;
  return static_cast<size_t>(shape.slices * shape.slice_slots()) *
         static_cast<size_t>(ActivationSlot(shape, column_tiles).bytes);
}

PromptMemory prompt_memory(const models::Plan& plan, const Limits& limits) {
  PromptMemory m;
  if (limits.exact) return m;
  const int32_t tokens = std::min(round_up(limits.max_batch_tokens, kDenseTokens), kMaxPromptTokens);
  const auto rows = static_cast<size_t>(tokens);
  const auto spec = [&](ops::WeightId id) { return plan.weights[static_cast<size_t>(id)]; };
  // Matrices side by side over one input.
  const auto add = [&](std::initializer_list<ops::WeightId> ids) {
    size_t width = 0;
    for (const ops::WeightId id : ids) {
      width += static_cast<size_t>(round_up(static_cast<int32_t>(spec(id).rows), kTileRows));
      m.x = std::max(m.x, dense_bytes(tokens, static_cast<int32_t>(spec(id).cols)));
    }
    m.sums = std::max(m.sums, rows * width * sizeof(float));
  };
  for (const ops::Operation& operation : plan.operations) {
    if (const auto* in = std::get_if<ops::AttnIn>(&operation)) {
      add({in->q.weight, in->k.weight, in->v.weight});
    } else if (const auto* attend = std::get_if<ops::Attend>(&operation)) {
      KvLayerPool pool;
      pool.dim = attend->head_dim;
      if (!has_prompt_attention(pool)) return {};
    } else if (const auto* project = std::get_if<ops::Project>(&operation)) {
      add({project->linear.weight});
    } else if (const auto* mlp = std::get_if<ops::Mlp>(&operation)) {
      add({mlp->gate.weight, mlp->up.weight});
      add({mlp->down.weight});
    }
  }
  m.tokens = tokens;
  m.inputs = rows * 6 * sizeof(int32_t);
  m.exponents = 2 * rows * sizeof(int32_t);  // of x, and of what a gate makes of it
  m.pending = rows * static_cast<size_t>(round_up(plan.hidden, kTileRows)) * sizeof(float);
  return m;
}

PassMemory pass_memory(const models::Plan& plan, const ops::WeightTable& weights, const Limits& limits) {
  PassMemory m;
  for (const TileShape& shape : shapes_of(plan, weights, limits.exact)) {
    m.activations = std::max(m.activations, activation_bytes(shape, column_tiles(kPassRows)));
    m.sums = std::max(m.sums, partial_floats(shape) * sizeof(float));
  }
  const int32_t context = std::max(limits.max_context, 1);
  m.blocks_per_slot = context / kBlockTokens + 2;
  m.partitions = context / kPartitionTokens + 1;
  constexpr auto kRows = static_cast<size_t>(kPassRows);
  m.rows = std::max(kPassRows, prompt_memory(plan, limits).tokens);
  const auto rows = static_cast<size_t>(m.rows);
  m.hidden = rows * static_cast<size_t>(plan.hidden) * sizeof(float);
  m.logits = kRows * static_cast<size_t>(plan.vocab) * sizeof(float);
  for (const ops::Operation& operation : plan.operations) {
    const auto* attend = std::get_if<ops::Attend>(&operation);
    if (attend == nullptr) continue;
    const auto heads = static_cast<size_t>(attend->q_heads), dim = static_cast<size_t>(attend->head_dim);
    m.q = std::max(m.q, rows * heads * dim * sizeof(float));
    const size_t pieces = kRows * heads * static_cast<size_t>(m.partitions);
    m.pieces = std::max(m.pieces, pieces * dim * sizeof(float));
    m.piece_sums = std::max(m.piece_sums, pieces * sizeof(float2));
  }
  for (const ops::Rope& rope : plan.ropes) m.ropes += rows * static_cast<size_t>(rope.dims) * sizeof(float);
  return m;
}

MemoryPlan plan_memory(const models::Plan& plan, const ops::WeightTable& weights, const Limits& limits) {
  MemoryPlan memory;
  for (const TileShape& shape : shapes_of(plan, weights, limits.exact)) memory.weight_bytes += shape.bytes();
  for (const models::KvGroup& group : plan.kv_groups)
    memory.block_bytes.push_back(static_cast<size_t>(group.n_layers) * static_cast<size_t>(group.kv_heads) *
                                 kBlockTokens * static_cast<size_t>(group.head_dim) * 2 *
                                 (limits.exact ? 4 : 2));
  const PassMemory pass = pass_memory(plan, weights, limits);
  memory.slot_bytes =
      plan.kv_groups.size() * static_cast<size_t>(pass.blocks_per_slot + 1) * sizeof(int32_t) +
      static_cast<size_t>(plan.vocab) * sizeof(uint32_t);  // counts of drawn tokens
  memory.scratch_bytes = prompt_memory(plan, limits).total() + pass.hidden + pass.q + pass.pieces +
                         pass.piece_sums + pass.logits + pass.ropes + (kMaxOutputs + 2) * pass.activations +
                         (kMaxOutputs + 1) * pass.sums;
  return memory;
}

}  // namespace penstock::exec::cuda
