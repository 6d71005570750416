#include "exec/delayed_executor.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"

namespace penstock::exec {
namespace {

constexpr size_t kPoisonedKept = 64;
constexpr int32_t kPoisonToken = 0x5a5a5a5a;

void require(bool ok, const std::string& what) {
  if (!ok) throw base::Error(base::Code::kInternal, "[exec.delayed] misuse: " + what);
}

template <class T>
std::vector<T> copy(std::span<const T> values) {
  return {values.begin(), values.end()};
}

}  // namespace

DelayedExecutor::DelayedExecutor(std::unique_ptr<Executor> inner, int32_t depth)
    : inner_(std::move(inner)), caps_(inner_->caps()) {
  require(depth >= 1, "depth of at least 1 expected; got " + std::to_string(depth));
  caps_.steps_in_flight = depth;
  caps_.detail += ", delayed by " + std::to_string(depth);
}

MemoryPlan DelayedExecutor::measure(const models::Plan& plan, const ops::WeightTable& weights,
                                    const Limits& limits) {
  return inner_->measure(plan, weights, limits);
}

void DelayedExecutor::load(const models::Plan& plan, const ops::WeightTable& weights, const Limits& limits) {
  inner_->load(plan, weights, limits);
}

void DelayedExecutor::reset_slot(int32_t slot, std::span<const int32_t> prompt,
                                 std::span<const int32_t> generated) {
  require(slots_[slot].in_flight == 0, "slot " + std::to_string(slot) + " reset under a step in flight");
  slots_[slot] = {};
  resets_.push_back({slot, copy(prompt), copy(generated)});
}

void DelayedExecutor::check_row(const Row& row, const Batch& batch) {
  const std::string slot = "slot " + std::to_string(row.slot);
  require(row.n_tokens >= 1 && row.first_token >= 0 &&
              static_cast<size_t>(row.first_token + row.n_tokens) <= batch.tokens.size(),
          slot + ": token range outside the batch");
  const SlotView& view = slots_[row.slot];
  for (const int32_t token :
       batch.tokens.subspan(static_cast<size_t>(row.first_token), static_cast<size_t>(row.n_tokens))) {
    if (token == kOnDevice) {
      require(row.role == Role::kGenerated, slot + ": a prompt token left to the device");
      require(!view.undrawn, slot + ": token left to the device before sample() of its step");
    } else {
      require(row.role == Role::kPrompt || !view.unread,
              slot + ": a token given by value whose draw was not waited for");
    }
  }
}

Ticket DelayedExecutor::forward(const Batch& batch) {
  require(in_flight_ < caps_.steps_in_flight, "more steps in flight than caps allow");
  require(!batch.rows.empty(), "a step without rows");
  std::set<int32_t> slots;
  bool prompts = false;
  Step step;
  for (const Row& row : batch.rows) {
    check_row(row, batch);
    require(slots.insert(row.slot).second, "slot " + std::to_string(row.slot) + " twice in one step");
    require(!(prompts && row.role == Role::kGenerated), "a generated row behind a prompt row");
    prompts = prompts || row.role == Role::kPrompt;
    step.n_logits += row.n_logits;
  }
  const Ticket ticket = next_++;
  for (const Row& row : batch.rows) {
    SlotView& view = slots_[row.slot];
    ++view.in_flight;
    if (row.n_logits > 0) view.undrawn = ticket;
  }
  step.rows = copy(batch.rows);
  step.tokens = copy(batch.tokens);
  step.table_edits = copy(batch.table_edits);
  step.copies = copy(batch.copies);
  step.resets = std::move(resets_);
  resets_.clear();
  step.writes = std::move(writes_);
  writes_.clear();
  ++in_flight_;
  steps_.emplace(ticket, std::move(step));
  return ticket;
}

void DelayedExecutor::sample(Ticket ticket, const SampleBatch& batch) {
  Step& step = step_of(ticket, "sample");
  require(!step.sampled, "sample() twice for one ticket");
  require(!step.waited, "sample() after wait()");
  std::set<int32_t> logit_rows;
  for (const SampleRow& row : batch.rows) {
    require(row.logit_row >= 0 && row.logit_row < step.n_logits, "sample() of a logit row that is not there");
    require(logit_rows.insert(row.logit_row).second, "sample() of one logit row twice");
  }
  step.sampled = true;
  step.sample_rows = copy(batch.rows);
  step.biases = copy(batch.biases);
  step.masks = copy(batch.masks);
  for (const Row& row : step.rows) {
    SlotView& view = slots_[row.slot];
    if (view.undrawn != ticket) continue;
    view.undrawn.reset();
    view.unread = ticket;
  }
}

const StepOutput& DelayedExecutor::wait(Ticket ticket) {
  Step& step = step_of(ticket, "wait");
  require(!step.waited, "wait() twice for one ticket");
  require(step.sampled || step.n_logits == 0, "wait() before sample() of a step with logits");
  run_through(ticket);
  step.waited = true;
  --in_flight_;
  for (const Row& row : step.rows) {
    SlotView& view = slots_[row.slot];
    --view.in_flight;
    if (view.unread == ticket) view.unread.reset();
  }
  if (step.failure) std::rethrow_exception(step.failure);
  return step.results.view;
}

void DelayedExecutor::release(Ticket ticket) {
  Step& step = step_of(ticket, "release");
  require(step.waited, "release() before wait()");
  Results& r = step.results;
  std::fill(r.tokens.begin(), r.tokens.end(), kPoisonToken);
  std::fill(r.logprobs.begin(), r.logprobs.end(), std::numeric_limits<float>::quiet_NaN());
  std::fill(r.logits.begin(), r.logits.end(), std::numeric_limits<float>::quiet_NaN());
  for (std::vector<ops::TopToken>& top : r.top) {
    std::fill(top.begin(), top.end(), ops::TopToken{kPoisonToken, 0});
  }
  poisoned_.push_back(std::move(r));
  if (poisoned_.size() > kPoisonedKept) poisoned_.pop_front();
  steps_.erase(ticket);
}

void DelayedExecutor::run_through(Ticket ticket) {
  for (auto& [number, step] : steps_) {
    if (number > ticket) break;
    if (!step.ran) run(step);
  }
}

std::vector<std::byte> DelayedExecutor::read_block(int32_t kv_group, int32_t block) {
  const auto is_of = [&](const Write& write) { return write.kv_group == kv_group && write.block == block; };
  for (const auto& [ticket, step] : steps_) {
    require(step.ran || std::ranges::none_of(step.writes, is_of), "read of a block that is being written");
  }
  require(std::ranges::none_of(writes_, is_of), "read of a block that is being written");
  return inner_->read_block(kv_group, block);
}

void DelayedExecutor::write_block(int32_t kv_group, int32_t block, std::span<const std::byte> bytes) {
  writes_.push_back({kv_group, block, copy(bytes)});
}

void DelayedExecutor::run(Step& step) {
  step.ran = true;
  std::optional<Ticket> inner;
  try {
    for (const Reset& reset : step.resets) {
      inner_->reset_slot(reset.slot, reset.prompt, reset.generated);
    }
    for (const Write& write : step.writes) inner_->write_block(write.kv_group, write.block, write.bytes);
    inner = inner_->forward({step.rows, step.tokens, step.table_edits, step.copies});
    if (step.sampled) inner_->sample(*inner, {step.sample_rows, step.biases, step.masks});
    keep(step.results, inner_->wait(*inner));
  } catch (...) {
    step.failure = std::current_exception();
  }
  if (inner) inner_->release(*inner);
}

void DelayedExecutor::keep(Results& results, const StepOutput& output) {
  results.tokens = copy(output.tokens);
  results.logprobs = copy(output.logprobs);
  results.top = copy(output.top);
  results.logits = copy(output.logits);
  results.errors = copy(output.errors);
  results.view = {results.tokens, results.logprobs, results.top, results.logits, results.errors};
}

DelayedExecutor::Step& DelayedExecutor::step_of(Ticket ticket, const char* call) {
  const auto found = steps_.find(ticket);
  require(found != steps_.end(), std::string(call) + "() of an unknown or released ticket");
  return found->second;
}

}  // namespace penstock::exec
