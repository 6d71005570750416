#include "pool/draft_loader.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace penstock::pool {
namespace {

using base::Code;
using base::Error;

std::string shown(const text::Pieces& pieces, int32_t id) {
  const std::string_view piece = pieces.piece(id);
  std::string text;
  for (const char c : piece) {
    const auto byte = static_cast<unsigned char>(c);
    text += byte >= 0x20 && byte < 0x7F ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return fmt::format("\"{}\"{}", text, pieces.is_special(id) ? " (a control token)" : "");
}

}  // namespace

void require_same_vocabulary(const text::Pieces& target, const text::Pieces& draft) {
  const int32_t common = std::min(target.vocab_size(), draft.vocab_size());
  for (int32_t id = 0; id < common; ++id) {
    if (target.piece(id) == draft.piece(id) && target.is_special(id) == draft.is_special(id)) continue;
    throw Error(Code::kInvalidRequest,
                fmt::format("[pool.draft] expected the draft model to have the model's tokens; got {} where "
                            "the model has {}, id {}",
                            shown(draft, id), shown(target, id), id));
  }
  if (target.vocab_size() == draft.vocab_size()) return;
  throw Error(Code::kInvalidRequest,
              fmt::format("[pool.draft] expected the draft model to have the model's {} tokens; got {}",
                          target.vocab_size(), draft.vocab_size()));
}

Draft measure_draft(std::shared_ptr<const models::ModelFiles> files, std::unique_ptr<exec::Executor> executor,
                    const exec::Limits& limits) {
  Draft draft{std::move(files), std::move(executor), {}, limits};
  draft.limits.max_context = std::min(limits.max_context, draft.files->plan.max_position);
  draft.limits.n_blocks.clear();
  draft.memory = draft.executor->measure(draft.files->plan, draft.files->weights, draft.limits);
  return draft;
}

std::unique_ptr<speculate::DraftModel> load_draft(Draft draft, size_t target_weight_bytes) {
  draft.executor->load(draft.files->plan, draft.files->weights, draft.limits);
  speculate::DraftModelOptions options;
  options.max_seqs = draft.limits.max_slots;
  options.max_batch_tokens = draft.limits.max_batch_tokens;
  options.context_length = draft.limits.max_context;
  options.n_blocks = draft.limits.n_blocks;
  options.relative_cost = static_cast<double>(draft.memory.weight_bytes) /
                          static_cast<double>(std::max<size_t>(1, target_weight_bytes));
  options.name = draft.files->path.filename().string();
  return std::make_unique<speculate::DraftModel>(std::move(draft.executor), draft.files->plan, options);
}

}  // namespace penstock::pool
