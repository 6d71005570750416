#include "unit/engine/fake_executor.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/hash.h"

namespace penstock::testing {
namespace {

void require(bool ok, const std::string& what) {
  if (!ok) throw base::Error(base::Code::kInternal, "[fake] " + what);
}

}  // namespace

models::Plan fake_plan(const FakeOptions& options) {
  models::Plan plan;
  plan.family = "fake";
  plan.vocab = options.vocab;
  plan.hidden = 1;
  plan.max_position = options.max_position;
  for (const int32_t window : options.windows) {
    plan.kv_groups.push_back({.n_layers = 1, .kv_heads = 1, .head_dim = 1, .window = window});
  }
  return plan;
}

FakeExecutor::FakeExecutor(FakeOptions options) : options_(std::move(options)) {
  caps_.name = "fake";
  caps_.block_tokens = options_.block_tokens;
  caps_.bit_stable = true;
  caps_.role_blind = options_.role_blind;
  caps_.max_draft_tokens = 8;
  caps_.block_format = "fake";
  slots_.resize(static_cast<size_t>(options_.max_slots));
  for (const int32_t n : options_.n_blocks) {
    keys_.emplace_back(static_cast<size_t>(n * options_.block_tokens));
  }
}

void FakeExecutor::reset_slot(int32_t slot, std::span<const int32_t> prompt,
                              std::span<const int32_t> generated) {
  Slot& s = slots_.at(static_cast<size_t>(slot));
  s = {};
  s.open = true;
  s.tables.resize(options_.windows.size());
  for (const int32_t token : prompt) s.counts[token] = {token, 0, true};
  for (const int32_t token : generated) {
    s.counts[token].token = s.last_token = token;
    ++s.counts[token].generated;
  }
}

std::span<FakeExecutor::Key> FakeExecutor::block(int32_t kv_group, int32_t block) {
  const auto n = static_cast<size_t>(options_.block_tokens);
  return std::span(keys_.at(static_cast<size_t>(kv_group))).subspan(static_cast<size_t>(block) * n, n);
}

std::vector<std::byte> FakeExecutor::read_block(int32_t kv_group, int32_t block) {
  const auto bytes = std::as_bytes(this->block(kv_group, block));
  return {bytes.begin(), bytes.end()};
}

void FakeExecutor::write_block(int32_t kv_group, int32_t block, std::span<const std::byte> bytes) {
  const auto to = std::as_writable_bytes(this->block(kv_group, block));
  require(bytes.size() == to.size(), "a block of another size");
  std::ranges::copy(bytes, to.begin());
}

void FakeExecutor::apply(const exec::TableEdit& edit) {
  const auto group = static_cast<size_t>(edit.kv_group);
  Slot& slot = slots_.at(static_cast<size_t>(edit.slot));
  std::vector<int32_t>& table = slot.tables.at(group);
  if (static_cast<size_t>(edit.index) >= table.size()) table.resize(static_cast<size_t>(edit.index) + 1, -1);
  int32_t& entry = table[static_cast<size_t>(edit.index)];
  const bool twice = edit.block >= 0 && std::find(table.begin(), table.end(), edit.block) != table.end();
  require(!twice, "a block twice in one table");
  require(edit.block < options_.n_blocks[group], "a block outside its group");
  entry = edit.block;
}

void FakeExecutor::check_batch(const exec::Batch& batch) const {
  require(batch.tokens.size() <= static_cast<size_t>(options_.max_batch_tokens), "too many tokens in a step");
  std::set<int32_t> slots;
  bool prompts = false;
  for (const exec::Row& row : batch.rows) {
    require(slots.insert(row.slot).second, "a slot twice in a step");
    require(slots_.at(static_cast<size_t>(row.slot)).open, "a slot that was not reset");
    require(row.n_tokens >= 1 && row.n_logits <= row.n_tokens, "bad counts of a row");
    require(row.role == exec::Role::kPrompt || !prompts, "a generated row behind a prompt row");
    prompts = prompts || row.role == exec::Role::kPrompt;
  }
}

FakeExecutor::Key& FakeExecutor::key_at(Slot& slot, size_t group, int32_t position) {
  const auto index = static_cast<size_t>(position / options_.block_tokens);
  const std::vector<int32_t>& table = slot.tables[group];
  require(index < table.size() && table[index] != -1, "position without a block");
  require(table[index] != -2, "a block that another slot wrote to");
  return keys_[group]
              [static_cast<size_t>(table[index] * options_.block_tokens + position % options_.block_tokens)];
}

/// For writing: other slots that have the block in their table must not run again before they are reset.
FakeExecutor::Key& FakeExecutor::own_key_at(const exec::Row& row, size_t group, int32_t position) {
  Slot& slot = slots_[static_cast<size_t>(row.slot)];
  Key& key = key_at(slot, group, position);
  const int32_t block = slot.tables[group][static_cast<size_t>(position / options_.block_tokens)];
  for (Slot& other : slots_) {
    if (&other == &slot || !other.open) continue;
    std::replace(other.tables[group].begin(), other.tables[group].end(), block, -2);
  }
  return key;
}

int32_t FakeExecutor::token_at(const exec::Row& row, int32_t given, const Slot& slot) const {
  if (row.role == exec::Role::kPrompt) {
    require(given >= 0 && given < options_.vocab, "a prompt token outside the vocabulary");
    return given;
  }
  if (given == exec::kOnDevice) return slot.last_token;
  const auto drawn = slot.counts.find(given);
  require(drawn != slot.counts.end() && drawn->second.generated > 0, "a generated token that was not drawn");
  return given;
}

std::vector<float> FakeExecutor::logits_at(Slot& slot, int32_t position, int32_t token) {
  std::vector<float> logits(static_cast<size_t>(options_.vocab));
  uint64_t hash = static_cast<uint64_t>(token);
  if (options_.errs_every > 0 && position % options_.errs_every == 0) hash ^= 0x5eed;
  for (size_t g = 0; g < options_.windows.size(); ++g) {
    const int32_t window = options_.windows[g];
    for (int32_t p = window > 0 ? std::max(0, position - window + 1) : 0; p <= position; ++p) {
      const Key& key = key_at(slot, g, p);
      require(key.position == p, "a key that this sequence did not write");
      hash = base::splitmix64(hash ^ key.hash);
    }
  }
  for (size_t v = 0; v < logits.size(); ++v) {
    logits[v] = static_cast<float>(base::splitmix64(hash ^ v) >> 40) * 0x1p-24f * 16 - 8;
  }
  if (token == options_.nan_token) logits[0] = std::numeric_limits<float>::quiet_NaN();
  return logits;
}

void FakeExecutor::run_row(const exec::Row& row, std::span<const int32_t> tokens) {
  Slot& slot = slots_[static_cast<size_t>(row.slot)];
  require(slot.lost || slot.is_new || slot.kv_len >= row.position, "a row that does not continue its slot");
  slot.is_new = false;
  for (int32_t i = 0; i < row.n_tokens; ++i) {
    const bool wants_logits = i >= row.n_tokens - row.n_logits;
    if (slot.lost) {  // what a lost slot computes is garbage, and hurts nobody else
      if (wants_logits) logit_rows_.push_back({row.slot, 0, std::vector<float>(1, -1.0f)});
      continue;
    }
    const int32_t position = row.position + i;
    const int32_t given = tokens[static_cast<size_t>(row.first_token + i)];
    const bool is_draft = row.role == exec::Role::kGenerated && row.n_logits > 1 && i > 0;
    const int32_t token = is_draft ? given : token_at(row, given, slot);
    for (size_t g = 0; g < options_.windows.size(); ++g) {
      const auto mixed = static_cast<uint64_t>(position) << 32 | static_cast<uint64_t>(token) << 8 | g;
      own_key_at(row, g, position) = {base::splitmix64(mixed), position};
    }
    if (wants_logits) logit_rows_.push_back({row.slot, position, logits_at(slot, position, token)});
    slot.kv_len = position + 1;
  }
}

/// What is read of such a block later throws.
void FakeExecutor::drop_blocks(int32_t kv_group, std::span<const int32_t> blocks) {
  auto& keys = keys_[static_cast<size_t>(kv_group)];
  for (const int32_t block : blocks) {
    const auto first = keys.begin() + static_cast<ptrdiff_t>(block) * options_.block_tokens;
    std::fill(first, first + options_.block_tokens, Key{});
  }
  if (options_.on_drop) options_.on_drop(kv_group, blocks.size());
}

exec::Ticket FakeExecutor::forward(const exec::Batch& batch) {
  require(!pending_, "a second step in flight");
  if (lost_) throw base::Error(base::Code::kUnavailable, "[fake] the device is lost");
  if (options_.on_step) options_.on_step(steps_);
  ++steps_;
  check_batch(batch);
  logit_rows_.clear();
  const auto lose_all = [&] {
    for (const exec::Row& row : batch.rows) slots_[static_cast<size_t>(row.slot)].lost = true;
  };
  const bool explodes =
      std::find(batch.tokens.begin(), batch.tokens.end(), options_.explode_token) != batch.tokens.end();
  if (explodes && options_.explode_token >= 0 && steps_ % 2 == 0) {
    lose_all();
    require(false, "exploded before the tables");
  }
  for (const exec::TableEdit& edit : batch.table_edits) apply(edit);
  for (const exec::BlockCopy& copy : batch.copies) {
    auto& keys = keys_.at(static_cast<size_t>(copy.kv_group));
    std::copy_n(keys.begin() + copy.from * options_.block_tokens, options_.block_tokens,
                keys.begin() + copy.to * options_.block_tokens);
  }
  if (explodes && options_.explode_token >= 0) {
    lose_all();
    require(false, "exploded");
  }
  for (const exec::Row& row : batch.rows) run_row(row, batch.tokens);
  tokens_.clear();
  logprobs_.clear();
  top_.clear();
  errors_.clear();
  lost_ = options_.lost_token >= 0 &&
          std::find(batch.tokens.begin(), batch.tokens.end(), options_.lost_token) != batch.tokens.end();
  pending_ = static_cast<exec::Ticket>(steps_);
  return *pending_;
}

void FakeExecutor::draw(const exec::SampleRow& row, const exec::SampleBatch& batch) {
  const LogitRow& logits = logit_rows_.at(static_cast<size_t>(row.logit_row));
  Slot& slot = slots_[static_cast<size_t>(logits.slot)];
  std::vector<ops::TokenCounts> counts;
  for (const auto& [token, n] : slot.counts) counts.push_back(n);
  ops::Draw draw;
  try {
    const ops::RowEdits edits{batch.biases.subspan(static_cast<size_t>(row.params.first_bias),
                                                   static_cast<size_t>(row.params.n_biases)),
                              counts, batch.mask_of(row, exec::mask_words(options_.vocab))};
    draw = ops::sample(logits.logits, row.params, edits, logits.position + 1, row.top_logprobs);
    slot.lost = draw.token < 0;
    errors_.push_back(slot.lost ? exec::RowError::kNoToken : exec::RowError::kNone);
    if (!slot.lost) {
      ops::TokenCounts& n = slot.counts[draw.token];
      n.token = draw.token;
      ++n.generated;
    }
  } catch (const base::Error&) {
    slot.lost = true;
    errors_.push_back(exec::RowError::kNotFinite);
  }
  slot.last_token = draw.token;
  tokens_.push_back(draw.token);
  logprobs_.push_back(draw.logprob);
  top_.push_back(std::move(draw.top));
}

void FakeExecutor::sample(exec::Ticket ticket, const exec::SampleBatch& batch) {
  require(pending_ == ticket && tokens_.empty(), "sample() out of order");
  for (const exec::SampleRow& row : batch.rows) {
    if (row.draft == exec::kNoDraft || tokens_.back() == row.draft) {
      draw(row, batch);
      continue;
    }
    tokens_.push_back(-1);
    logprobs_.push_back(0);
    top_.emplace_back();
    errors_.push_back(exec::RowError::kNone);
  }
}

const exec::StepOutput& FakeExecutor::wait(exec::Ticket ticket) {
  require(pending_ == ticket, "wait() out of order");
  if (lost_) throw base::Error(base::Code::kUnavailable, "[fake] the device is lost");
  output_ = {tokens_, logprobs_, top_, {}, errors_};
  return output_;
}

void FakeExecutor::release(exec::Ticket ticket) {
  require(pending_ == ticket, "release() out of order");
  pending_.reset();
}

}  // namespace penstock::testing
