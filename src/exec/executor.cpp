#include "exec/executor.h"

#include <algorithm>

#include "base/error.h"

namespace penstock::exec {
namespace {

base::Error cannot_move(const Caps& caps) {
  return {base::Code::kUnsupported,
          "[exec.block] expected an executor that moves blocks of its cache; got " + caps.name};
}

}  // namespace

void require_block_bytes(size_t got, size_t expected) {
  if (got == expected) return;
  throw base::Error(base::Code::kInternal, "[exec.write_block] expected a block of " +
                                               std::to_string(expected) + " bytes; got " +
                                               std::to_string(got));
}

std::vector<int32_t> text_blocks(const models::Plan& plan, const Limits& limits, int32_t block_tokens) {
  // A text begins with a block of its own, so each may leave one that is not full.
  const int32_t blocks = limits.max_batch_tokens / block_tokens + limits.max_slots;
  return std::vector<int32_t>(plan.kv_groups.size(), blocks);
}

void require_texts(const models::Plan& plan, const Limits& limits, const TextBatch& batch) {
  const auto require = [](bool holds, const char* expected, auto got) {
    if (holds) return;
    throw base::Error(base::Code::kInternal,
                      std::string("[exec.encode] expected ") + expected + "; got " + std::to_string(got));
  };
  const auto within = [](std::span<const int32_t> values, int32_t end) {
    return std::all_of(values.begin(), values.end(), [&](int32_t v) { return v >= 0 && v < end; });
  };
  size_t tokens = 0;
  for (const int32_t length : batch.lengths) {
    require(length > 0 && length <= plan.max_position, "a text that the model has positions for", length);
    tokens += static_cast<size_t>(length);
  }
  require(plan.task != models::Task::kGenerate, "a plan that encodes", 0);
  require(batch.lengths.size() <= static_cast<size_t>(limits.max_slots), "at most max_slots texts",
          batch.lengths.size());
  require(tokens == batch.tokens.size() && tokens <= static_cast<size_t>(limits.max_batch_tokens),
          "at most max_batch_tokens tokens, those of the texts", batch.tokens.size());
  require(batch.types.empty() || batch.types.size() == tokens, "a type for each token", batch.types.size());
  require(within(batch.tokens, plan.vocab), "ids of the vocabulary", -1);
  require(within(batch.types, plan.token_types), "types of the model's", -1);
}

void require_forward(const models::Plan& plan) {
  if (plan.task == models::Task::kGenerate) return;
  throw base::Error(base::Code::kUnsupported,
                    "[exec.forward] expected a model that generates text; got one that encodes texts");
}

void require_generating(const models::Plan& plan, const std::string& executor) {
  if (plan.task == models::Task::kGenerate) return;
  throw base::Error(base::Code::kUnsupported, "[exec." + executor + "] the operation " +
                                                  ops::name(plan.operations.back()) +
                                                  " and attention over whole texts are not known here");
}

std::span<const float> Executor::encode(const TextBatch&) {
  throw base::Error(base::Code::kUnsupported,
                    "[exec.encode] expected an executor that encodes texts; got " + caps().name);
}

std::vector<std::byte> Executor::read_block(int32_t, int32_t) {
  throw cannot_move(caps());
}

void Executor::write_block(int32_t, int32_t, std::span<const std::byte>) {
  throw cannot_move(caps());
}

}  // namespace penstock::exec
