#include "exec/reference_executor.h"

#include <algorithm>

#include "base/error.h"
#include "exec/block_table.h"
#include "exec/host_sampling.h"
#include "ops/key_divisors.h"

namespace penstock::exec {

using base::Code;
using base::Error;

struct ReferenceExecutor::Slot {
  std::vector<std::vector<int32_t>> tables;  // [kv_group][index] block, -1 none
};

struct ReferenceExecutor::Step {
  std::vector<LogitRow> rows;
  std::vector<float> logits;  // [rows, vocab]
  OwnedOutput output;
};

/// One token on its way through the plan.
struct ReferenceExecutor::TokenRun {
  int32_t id = 0;
  int32_t position = 0;
  int32_t type = 0;
  int32_t end = 0;  // of its row: one position more than the last
  bool wants_logits = false;
  std::vector<std::vector<float>> buffers = {};
};

ReferenceExecutor::ReferenceExecutor() {
  caps_.name = "reference";
  caps_.detail = "scalar, float64 sums";
  caps_.bit_stable = true;
  caps_.role_blind = true;
  caps_.max_draft_tokens = 16;
  caps_.block_format = "reference float32";
}

ReferenceExecutor::~ReferenceExecutor() = default;

MemoryPlan ReferenceExecutor::measure(const models::Plan& plan, const ops::WeightTable&, const Limits&) {
  MemoryPlan memory;
  for (const auto& weight : plan.weights)
    memory.weight_bytes += static_cast<size_t>(weight.rows * weight.cols) * 4;
  for (const auto& group : plan.kv_groups) {
    memory.block_bytes.push_back(static_cast<size_t>(group.n_layers) *
                                 static_cast<size_t>(caps_.block_tokens) *
                                 static_cast<size_t>(group.kv_heads * group.head_dim) * 8);
  }
  return memory;
}

void ReferenceExecutor::load(const models::Plan& plan, const ops::WeightTable& weights,
                             const Limits& limits) {
  plan_ = &plan;
  weights_ = std::make_unique<ops::ReferenceWeights>(weights);
  table_ = &weights;
  limits_ = limits;
  caps_.block_format = limits.kv_format == ops::KvFormat::kPlain
                           ? "reference float32"
                           : std::string("reference ") + ops::name(limits.kv_format);
  slots_.assign(static_cast<size_t>(limits.max_slots), {});
  tokens_.assign(static_cast<size_t>(limits.max_slots), {});
  for (const auto& layer : plan.kv_layers) {
    const auto group = static_cast<size_t>(layer.group);
    const auto width =
        static_cast<size_t>(plan.kv_groups[group].kv_heads * plan.kv_groups[group].head_dim) * 2;
    blocks_.emplace_back(static_cast<size_t>(limits.n_blocks[group] * caps_.block_tokens) * width);
  }
  for (auto& slot : slots_) slot.tables.resize(plan.kv_groups.size());
}

void ReferenceExecutor::reset_slot(int32_t slot, std::span<const int32_t> prompt,
                                   std::span<const int32_t> generated) {
  for (auto& table : slots_[static_cast<size_t>(slot)].tables) table.clear();
  tokens_[static_cast<size_t>(slot)].reset(prompt, generated);
}

Ticket ReferenceExecutor::forward(const Batch& batch) {
  require_forward(*plan_);
  for (const TableEdit& edit : batch.table_edits) {
    auto& table = slots_[static_cast<size_t>(edit.slot)].tables[static_cast<size_t>(edit.kv_group)];
    apply_edit(table, edit);
  }
  for (const BlockCopy& copy : batch.copies) copy_block(copy);
  Step step{logit_rows(batch), {}, {}};
  for (const Row& row : batch.rows) {
    std::vector<TokenRun> runs;
    for (int32_t i = 0; i < row.n_tokens; ++i) {
      const int32_t token = batch.tokens[static_cast<size_t>(row.first_token + i)];
      const int32_t id = token == kOnDevice ? tokens_[static_cast<size_t>(row.slot)].last() : token;
      runs.push_back(
          {id, row.position + i, 0, row.position + row.n_tokens, i >= row.n_tokens - row.n_logits});
    }
    run_row(slots_[static_cast<size_t>(row.slot)], runs, step.logits);
  }
  steps_.emplace(next_ticket_, std::move(step));
  return next_ticket_++;
}

std::span<const float> ReferenceExecutor::encode(const TextBatch& batch) {
  require_texts(*plan_, limits_, batch);
  pooled_.clear();
  size_t first = 0;
  for (const int32_t length : batch.lengths) {
    Slot slot;
    slot.tables.resize(plan_->kv_groups.size());
    for (auto& table : slot.tables)
      for (int32_t block = 0; block * caps_.block_tokens < length; ++block) table.push_back(block);
    std::vector<TokenRun> runs;
    for (int32_t i = 0; i < length; ++i) {
      const size_t at = first + static_cast<size_t>(i);
      runs.push_back({batch.tokens[at], i, batch.types.empty() ? 0 : batch.types[at], length});
    }
    run_row(slot, runs, pooled_);
    first += static_cast<size_t>(length);
  }
  return pooled_;
}

std::vector<std::span<float>> ReferenceExecutor::block_parts(int32_t kv_group, int32_t block) {
  const models::KvGroup& group = plan_->kv_groups[static_cast<size_t>(kv_group)];
  const size_t floats = static_cast<size_t>(caps_.block_tokens * group.kv_heads * group.head_dim) * 2;
  std::vector<std::span<float>> parts;
  for (size_t layer = 0; layer < plan_->kv_layers.size(); ++layer) {
    if (plan_->kv_layers[layer].group != kv_group) continue;
    parts.push_back(std::span(blocks_[layer]).subspan(static_cast<size_t>(block) * floats, floats));
  }
  return parts;
}

void ReferenceExecutor::copy_block(const BlockCopy& copy) {
  const auto from = block_parts(copy.kv_group, copy.from), to = block_parts(copy.kv_group, copy.to);
  for (size_t i = 0; i < from.size(); ++i) std::ranges::copy(from[i], to[i].begin());
}

std::vector<std::byte> ReferenceExecutor::read_block(int32_t kv_group, int32_t block) {
  std::vector<std::byte> bytes;
  for (const std::span<const float> part : block_parts(kv_group, block)) {
    const auto own = std::as_bytes(part);
    bytes.insert(bytes.end(), own.begin(), own.end());
  }
  return bytes;
}

void ReferenceExecutor::write_block(int32_t kv_group, int32_t block, std::span<const std::byte> bytes) {
  const auto parts = block_parts(kv_group, block);
  require_block_bytes(bytes.size(), parts.empty() ? 0 : parts.size() * parts.front().size_bytes());
  for (const std::span<float> part : parts) {
    std::ranges::copy(bytes.first(part.size_bytes()), std::as_writable_bytes(part).begin());
    bytes = bytes.subspan(part.size_bytes());
  }
}

/// Operation by operation, so that a token may see those behind it. `out` gets logits, or what a text
/// becomes.
void ReferenceExecutor::run_row(Slot& slot, std::span<TokenRun> tokens, std::vector<float>& out) {
  for (TokenRun& run : tokens)
    for (const auto& buffer : plan_->buffers) run.buffers.emplace_back(static_cast<size_t>(buffer.width));
  for (const auto& operation : plan_->operations) {
    if (const auto* pool = std::get_if<ops::Pool>(&operation)) {
      std::vector<std::span<const float>> all;
      for (const TokenRun& run : tokens) all.emplace_back(run.buffers[static_cast<size_t>(pool->in)]);
      const std::vector<float> pooled = ops::pool_reference(*pool, *weights_, all);
      out.insert(out.end(), pooled.begin(), pooled.end());
      continue;
    }
    for (TokenRun& run : tokens) run_token(slot, operation, run, out);
  }
}

void ReferenceExecutor::run_token(Slot& slot, const ops::Operation& operation, TokenRun& run,
                                  std::vector<float>& out) {
  const auto at = [&](ops::BufferId id) -> std::vector<float>& {
    return run.buffers[static_cast<size_t>(id)];
  };
  if (const auto* embed = std::get_if<ops::Embed>(&operation)) {
    ops::embed_reference(*embed, *weights_, {run.id, run.position, run.type}, at(embed->out));
  } else if (const auto* in = std::get_if<ops::AttnIn>(&operation)) {
    append(slot, *in, run);
  } else if (const auto* attention = std::get_if<ops::Attend>(&operation)) {
    attend(slot, *attention, run);
  } else if (const auto* project = std::get_if<ops::Project>(&operation)) {
    ops::project_reference(*project, *weights_, at(project->in), at(project->residual));
  } else if (const auto* mlp = std::get_if<ops::Mlp>(&operation)) {
    ops::mlp_reference(*mlp, *weights_, at(mlp->residual));
  } else if (const auto* head = std::get_if<ops::Head>(&operation)) {
    if (!run.wants_logits) return;
    const size_t offset = out.size();
    out.resize(offset + static_cast<size_t>(plan_->vocab));
    ops::head_reference(*head, *weights_, at(head->in), std::span(out).subspan(offset));
  } else {
    throw Error(Code::kUnsupported, "[exec.reference] the plan has an operation that is not known here");
  }
}

std::span<float> ReferenceExecutor::kv_entry(Slot& slot, int32_t kv_layer, int32_t position) {
  const auto group = static_cast<size_t>(plan_->kv_layers[static_cast<size_t>(kv_layer)].group);
  const auto index = static_cast<size_t>(position / caps_.block_tokens);
  const auto& table = slot.tables[group];
  if (index >= table.size() || table[index] < 0) {
    throw Error(Code::kInternal,
                "[exec.reference] expected a block for position " + std::to_string(position) + "; got none");
  }
  const auto width =
      static_cast<size_t>(plan_->kv_groups[group].kv_heads * plan_->kv_groups[group].head_dim) * 2;
  const auto entry = static_cast<size_t>(table[index] * caps_.block_tokens + position % caps_.block_tokens);
  return std::span(blocks_[static_cast<size_t>(kv_layer)]).subspan(entry * width, width);
}

void ReferenceExecutor::round_kv(const ops::AttnIn& op, const ops::Rope* rope, ops::AttnInOutput& result) {
  auto& divisors = divisors_[op.kv_layer];
  if (divisors.empty()) divisors = ops::key_divisors(op, rope, *table_);
  const auto dim = static_cast<size_t>(op.head_dim);
  for (size_t i = 0; i < result.k.size(); ++i) result.k[i] /= divisors[i];
  for (size_t at = 0; at < result.k.size(); at += dim) {
    ops::round_kv_reference(ops::key_bits(limits_.kv_format), std::span(result.k).subspan(at, dim));
    ops::round_kv_reference(ops::value_bits(limits_.kv_format), std::span(result.v).subspan(at, dim));
  }
  for (size_t i = 0; i < result.k.size(); ++i) result.k[i] *= divisors[i];
}

void ReferenceExecutor::append(Slot& slot, const ops::AttnIn& op, TokenRun& run) {
  const ops::Rope* rope = op.rope < 0 ? nullptr : &plan_->ropes[static_cast<size_t>(op.rope)];
  auto result =
      ops::attn_in_reference(op, rope, *weights_, run.position, run.buffers[static_cast<size_t>(op.in)]);
  run.buffers[static_cast<size_t>(op.out_q)] = std::move(result.q);
  if (limits_.kv_format != ops::KvFormat::kPlain) round_kv(op, rope, result);
  const auto entry = kv_entry(slot, op.kv_layer, run.position);
  std::copy(result.k.begin(), result.k.end(), entry.begin());
  std::copy(result.v.begin(), result.v.end(), entry.begin() + static_cast<long>(result.k.size()));
}

void ReferenceExecutor::attend(Slot& slot, const ops::Attend& op, TokenRun& run) {
  std::vector<float> keys, values;
  const int32_t first = op.window > 0 ? std::max(0, run.position - op.window + 1) : 0;
  const int32_t end = op.whole_text ? run.end : run.position + 1;
  for (int32_t p = first; p < end; ++p) {
    const auto entry = kv_entry(slot, op.kv_layer, p);
    const auto half = entry.size() / 2;
    keys.insert(keys.end(), entry.begin(), entry.begin() + static_cast<long>(half));
    values.insert(values.end(), entry.begin() + static_cast<long>(half), entry.end());
  }
  ops::attend_reference(op, run.position, {keys, values, first}, run.buffers[static_cast<size_t>(op.in_q)],
                        run.buffers[static_cast<size_t>(op.out_o)]);
}

void ReferenceExecutor::sample(Ticket ticket, const SampleBatch& batch) {
  Step& step = steps_.at(ticket);
  step.output.draw(batch, step.rows, step.logits, {plan_->vocab, limits_}, tokens_);
}

const StepOutput& ReferenceExecutor::wait(Ticket ticket) {
  return steps_.at(ticket).output.view();
}

void ReferenceExecutor::release(Ticket ticket) {
  steps_.erase(ticket);
}

}  // namespace penstock::exec
