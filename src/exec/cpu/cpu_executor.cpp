#include "exec/cpu/cpu_executor.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <string>

#include "base/error.h"
#include "exec/block_table.h"
#include "exec/cpu/attend_work.h"
#include "exec/cpu/context_setup.h"
#include "quant/format.h"

namespace penstock::exec::cpu {

using base::Code;
using base::Error;

namespace {

std::unique_ptr<CpuOperation> make_operation(const ops::Operation& operation, const LoadContext& load) {
  return std::visit(
      [&](const auto& op) -> std::unique_ptr<CpuOperation> {
        using T = std::decay_t<decltype(op)>;
        if constexpr (std::is_same_v<T, ops::Embed>) return make_embed(op, load);
        if constexpr (std::is_same_v<T, ops::AttnIn>) return make_attn_in(op, load);
        if constexpr (std::is_same_v<T, ops::Attend>) return make_attend(op, load);
        if constexpr (std::is_same_v<T, ops::Project>) return make_project(op, load);
        if constexpr (std::is_same_v<T, ops::Mlp>) return make_mlp(op, load);
        if constexpr (std::is_same_v<T, ops::Head>) return make_head(op, load);
        if constexpr (std::is_same_v<T, ops::Pool>) return make_pool(op, load);
        throw Error(Code::kUnsupported,
                    std::string("[exec.cpu.load] this executor lacks the operation ") + ops::name(operation));
      },
      operation);
}

int32_t thread_count(const Limits& limits) {
  return limits.threads > 0 ? limits.threads : usable_cores();
}

void require_limits(const models::Plan& plan, const Limits& limits) {
  if (limits.n_blocks.size() != plan.kv_groups.size() || limits.max_batch_tokens < 1 || limits.max_slots < 1)
    throw Error(Code::kInternal,
                "[exec.cpu.load] expected slots, batch tokens and a block count for each of " +
                    std::to_string(plan.kv_groups.size()) + " KV groups; got " +
                    std::to_string(limits.n_blocks.size()));
}

}  // namespace

CpuExecutor::CpuExecutor(Isa isa) : kernels_(choose_kernels(isa)) {
  caps_.name = "cpu";
  caps_.detail = kernels_.name;
  caps_.block_tokens = kTileKeys;
  caps_.steps_in_flight = 1;
  caps_.bit_stable = true;
  caps_.role_blind = true;
  caps_.max_draft_tokens = 16;
}

CpuExecutor::~CpuExecutor() = default;

MemoryPlan CpuExecutor::measure(const models::Plan& plan, const ops::WeightTable& weights,
                                const Limits& limits) {
  MemoryPlan memory;
  std::set<ops::WeightId> packed;
  GroupSet groups = 0;
  for (const ops::Operation& operation : plan.operations)
    for (const ops::WeightId id : matrices_of(operation)) {
      if (!packed.insert(id).second) continue;
      const auto index = static_cast<size_t>(id);
      const PackedMatrix planned = plan_packing(weights[index], plan.weights[index].name);
      memory.weight_bytes += packed_bytes(planned);
      groups |= groups_of({&planned}, limits.exact);
    }
  for (size_t id = 0; id < plan.weights.size(); ++id) {
    if (packed.contains(static_cast<ops::WeightId>(id))) continue;
    const quant::Matrix& matrix = weights[id];
    memory.weight_bytes += plan.weights[id].vector
                               ? static_cast<size_t>(matrix.rows * matrix.cols) * sizeof(float)
                               : matrix.format->row_bytes(matrix) * static_cast<size_t>(matrix.rows);
  }
  for (const models::KvGroup& group : plan.kv_groups)
    memory.block_bytes.push_back(KvCache::block_bytes(group, {limits.exact, limits.kv_format}));
  memory.slot_bytes =
      plan.kv_groups.size() * sizeof(int32_t) * static_cast<size_t>(limits.max_context / kTileKeys + 1);
  memory.scratch_bytes = scratch_bytes(plan, limits, groups, thread_count(limits), kernels_);
  return memory;
}

void CpuExecutor::load(const models::Plan& plan, const ops::WeightTable& weights, const Limits& limits) {
  require_limits(plan, limits);
  limits_ = limits;
  operations_.clear();
  pool_ = std::make_unique<ThreadPool>(thread_count(limits));
  weights_ = std::make_unique<WeightStore>(plan, weights, *pool_);
  GroupSet groups = 0;
  for (const ops::Operation& operation : plan.operations) {
    operations_.push_back(make_operation(operation, {plan, *weights_, limits.exact, limits.kv_format}));
    groups |= operations_.back()->groups();
  }
  context_ = make_context(plan, limits, groups, *pool_, kernels_);
  tokens_.assign(static_cast<size_t>(limits.max_slots), {});
  caps_.detail = std::string(kernels_.name) + ", " + std::to_string(pool_->size()) + " threads, " +
                 (limits.exact ? "float32" : "int8") + " activations, " +
                 (limits.kv_format != ops::KvFormat::kPlain ? ops::name(limits.kv_format)
                  : limits.exact                            ? "float32"
                                                            : "f16") +
                 " cache";
  caps_.block_format = std::string("cpu ") + kernels_.name + (limits.exact ? " float32" : " float16");
  if (limits.kv_format != ops::KvFormat::kPlain)
    caps_.block_format = std::string("cpu ") + kernels_.name + " " + ops::name(limits.kv_format) + " of 32" +
                         (limits.exact ? ", float32 activations" : ", int8 activations");
}

void CpuExecutor::reset_slot(int32_t slot, std::span<const int32_t> prompt,
                             std::span<const int32_t> generated) {
  for (auto& table : context_->tables[static_cast<size_t>(slot)]) table.clear();
  tokens_[static_cast<size_t>(slot)].reset(prompt, generated);
}

void CpuExecutor::drop_blocks(int32_t kv_group, std::span<const int32_t> blocks) {
  context_->cache.drop(kv_group, blocks);
}

namespace {

void apply_edits(Context& context, std::span<const TableEdit> edits) {
  for (const TableEdit& edit : edits) {
    auto& table = context.tables[static_cast<size_t>(edit.slot)][static_cast<size_t>(edit.kv_group)];
    if (edit.block >= context.cache.n_blocks(edit.kv_group))
      throw Error(Code::kInternal,
                  "[exec.cpu.forward] block " + std::to_string(edit.block) + " is outside its KV group");
    apply_edit(table, edit);
  }
}

/// Every position that the row writes or sees must have a block.
void require_blocks(const Context& context, const Row& row) {
  for (size_t g = 0; g < context.plan->kv_groups.size(); ++g) {
    const auto& table = context.tables[static_cast<size_t>(row.slot)][g];
    const int32_t first = first_visible(row.position, context.plan->kv_groups[g].window) / kTileKeys;
    const int32_t last = (row.position + row.n_tokens - 1) / kTileKeys;
    for (int32_t i = first; i <= last; ++i)
      if (static_cast<size_t>(i) >= table.size() || table[static_cast<size_t>(i)] < 0)
        throw Error(Code::kInternal, "[exec.cpu.forward] expected a block for position " +
                                         std::to_string(i * kTileKeys) + " of slot " +
                                         std::to_string(row.slot) + "; got none");
  }
}

void add_row(Context& context, const Row& row, std::span<const int32_t> tokens, const SlotTokens& slot) {
  Step& step = context.step;
  require_blocks(context, row);
  const int32_t first = step.n_tokens();
  for (int32_t i = 0; i < row.n_tokens; ++i) {
    const int32_t given = tokens[static_cast<size_t>(row.first_token + i)];
    const int32_t id = given == kOnDevice ? slot.last() : given;
    if (id < 0 || id >= context.plan->vocab)
      throw Error(Code::kInternal, "[exec.cpu.forward] expected a token below " +
                                       std::to_string(context.plan->vocab) + "; got " + std::to_string(id));
    step.ids.push_back(id);
    step.positions.push_back(row.position + i);
    step.slots.push_back(row.slot);
    if (i >= row.n_tokens - row.n_logits) step.logit_tokens.push_back(first + i);
  }
  for (int32_t i = 0; i < row.n_tokens; i += context.block_tokens) {
    const int32_t n = std::min(context.block_tokens, row.n_tokens - i);
    step.blocks.push_back({row.slot, first + i, n, row.position + i, row.position + i + n});
  }
}

/// A text in a slot of its own, whose keys and values lie in `block` and those behind it.
void add_text(Context& context, int32_t slot, std::span<const int32_t> ids, int32_t block) {
  Step& step = context.step;
  const auto n = static_cast<int32_t>(ids.size());
  const int32_t first = step.n_tokens();
  for (auto& table : context.tables[static_cast<size_t>(slot)]) {
    table.clear();
    for (int32_t i = 0; i * kTileKeys < n; ++i) table.push_back(block + i);
  }
  for (int32_t i = 0; i < n; ++i) {
    step.ids.push_back(ids[static_cast<size_t>(i)]);
    step.positions.push_back(i);
    step.slots.push_back(slot);
  }
  for (int32_t i = 0; i < n; i += context.block_tokens)
    step.blocks.push_back({slot, first + i, std::min(context.block_tokens, n - i), i, n});
  step.texts.push_back({first, n});
}

}  // namespace

Ticket CpuExecutor::forward(const Batch& batch) {
  if (ticket_ != 0)
    throw Error(Code::kInternal, "[exec.cpu.forward] expected the last step to be released first");
  failure_ = nullptr;
  output_ = OwnedOutput();
  try {
    compute(batch);
  } catch (...) {
    failure_ = std::current_exception();
  }
  ticket_ = next_ticket_++;
  return ticket_;
}

void CpuExecutor::clear_step() {
  Step& step = context_->step;
  for (auto* list : {&step.ids, &step.positions, &step.slots, &step.logit_tokens, &step.types}) list->clear();
  step.blocks.clear();
  step.texts.clear();
  pool_->set_alone(guard_.alone());
}

std::span<const float> CpuExecutor::encode(const TextBatch& batch) {
  require_texts(*context_->plan, limits_, batch);
  clear_step();
  Step& step = context_->step;
  int32_t slot = 0, block = 0;
  size_t first = 0;
  for (const int32_t length : batch.lengths) {
    add_text(*context_, slot++, batch.tokens.subspan(first, static_cast<size_t>(length)), block);
    first += static_cast<size_t>(length);
    block += (length + kTileKeys - 1) / kTileKeys;
  }
  step.types.assign(batch.types.begin(), batch.types.end());
  for (size_t g = 0; g < context_->plan->kv_groups.size(); ++g)
    step.attention[g] = cut_attention(context_->plan->kv_groups[g], step.blocks, pool_->active());
  run_step();
  const auto width = static_cast<size_t>(context_->plan->pooled_width);
  return {context_->pooled.data(), batch.lengths.size() * width};
}

void CpuExecutor::compute(const Batch& batch) {
  require_forward(*context_->plan);
  clear_step();
  Step& step = context_->step;
  apply_edits(*context_, batch.table_edits);
  for (const BlockCopy& copy : batch.copies) context_->cache.copy(copy.kv_group, copy.from, copy.to);
  for (const Row& row : batch.rows)
    add_row(*context_, row, batch.tokens, tokens_[static_cast<size_t>(row.slot)]);
  if (step.n_tokens() > context_->max_tokens)
    throw Error(Code::kInternal, "[exec.cpu.forward] expected at most " +
                                     std::to_string(context_->max_tokens) + " tokens; got " +
                                     std::to_string(step.n_tokens()));
  for (size_t g = 0; g < context_->plan->kv_groups.size(); ++g)
    step.attention[g] = cut_attention(context_->plan->kv_groups[g], step.blocks, pool_->active());
  logit_rows_ = logit_rows(batch);
  const size_t logits = static_cast<size_t>(step.n_logits()) * static_cast<size_t>(context_->plan->vocab);
  if (context_->logits.size() < logits) context_->logits.resize(logits);
  run_step();
}

void CpuExecutor::run_step() {
  const auto start = std::chrono::steady_clock::now();
  pool_->run([this](int32_t thread) {
    turn_table(thread);
    for (const auto& operation : operations_) operation->run(*context_, thread);
  });
  const std::chrono::duration<double> step = std::chrono::steady_clock::now() - start;
  guard_.finished(step.count(), pool_->waited_seconds());
}

/// Cosines and sines of this thread's tokens; the barrier of the first operation covers them.
void CpuExecutor::turn_table(int32_t thread) {
  const Range mine = context_->share(context_->step.n_tokens(), thread);
  for (size_t r = 0; r < context_->plan->ropes.size(); ++r) {
    const ops::Rope& rope = context_->plan->ropes[r];
    const int64_t half = rope.dims / 2;
    for (int64_t t = mine.first; t < mine.last; ++t) {
      const auto position = static_cast<float>(context_->step.positions[static_cast<size_t>(t)]);
      for (int64_t i = 0; i < half; ++i) {
        // The angle is a float32 product, as in the reference.
        const auto angle = static_cast<double>(position * rope.inv_freq[static_cast<size_t>(i)]);
        const auto at = static_cast<size_t>(t * half + i);
        context_->cos[r][at] = static_cast<float>(std::cos(angle) * double{rope.magnitude});
        context_->sin[r][at] = static_cast<float>(std::sin(angle) * double{rope.magnitude});
      }
    }
  }
}

void CpuExecutor::require_ticket(Ticket ticket) const {
  if (ticket == 0 || ticket != ticket_)
    throw Error(Code::kInternal,
                "[exec.cpu] expected the ticket of the step in flight; got " + std::to_string(ticket));
}

void CpuExecutor::sample(Ticket ticket, const SampleBatch& batch) {
  require_ticket(ticket);
  if (failure_ != nullptr) return;
  output_.draw(batch, logit_rows_, context_->logits, {context_->plan->vocab, limits_}, tokens_,
               [this](int32_t n, const std::function<void(int32_t)>& row) {
                 if (n == 1) return row(0);
                 pool_->run([&](int32_t thread) {
                   const DenormalScope scope(Denormals::kKept);
                   for (int32_t i; (i = pool_->take(thread, n)) >= 0;) row(i);
                 });
               });
}

const StepOutput& CpuExecutor::wait(Ticket ticket) {
  require_ticket(ticket);
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  return output_.view();
}

void CpuExecutor::release(Ticket ticket) {
  require_ticket(ticket);
  ticket_ = 0;
}

std::vector<std::byte> CpuExecutor::read_block(int32_t kv_group, int32_t block) {
  const std::span<const std::byte> bytes = context_->cache.block(kv_group, block);
  return {bytes.begin(), bytes.end()};
}

void CpuExecutor::write_block(int32_t kv_group, int32_t block, std::span<const std::byte> bytes) {
  const std::span<std::byte> to = context_->cache.block(kv_group, block);
  require_block_bytes(bytes.size(), to.size());
  std::ranges::copy(bytes, to.begin());
}

}  // namespace penstock::exec::cpu
