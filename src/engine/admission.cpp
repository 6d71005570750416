#include "engine/admission.h"

#include <cmath>
#include <string>

#include "base/error.h"
#include "engine/scheduler.h"

namespace penstock::engine {
namespace {

using base::Code;
using base::Error;

void require(bool ok, const char* expected, int64_t got) {
  if (ok) return;
  throw Error(Code::kInvalidRequest,
              std::string("[engine.admission] expected ") + expected + "; got " + std::to_string(got));
}

bool fits(const cache::Groups& groups, int32_t context, int32_t step_tokens) {
  const std::vector<int32_t> needed = groups.blocks_needed(context, step_tokens);
  for (size_t g = 0; g < needed.size(); ++g) {
    if (needed[g] > groups.list[g].pool.total()) return false;
  }
  return true;
}

}  // namespace

void check_options(const EngineOptions& options) {
  require(options.max_seqs >= 1, "max_seqs of at least 1", options.max_seqs);
  require(options.max_queue >= 0, "max_queue of at least 0", options.max_queue);
  require(options.prefill_chunk_tokens >= kGridTokens, "prefill_chunk_tokens of at least 64",
          options.prefill_chunk_tokens);
  require(options.max_batch_tokens >= options.max_seqs + kGridTokens,
          "max_batch_tokens of at least max_seqs + 64", options.max_batch_tokens);
}

int32_t context_that_fits(const cache::Groups& groups, int32_t wanted, int32_t step_tokens) {
  int32_t low = 0, high = wanted;  // low fits
  while (low < high) {
    const int32_t middle = low + (high - low + 1) / 2;
    fits(groups, middle, step_tokens) ? low = middle : high = middle - 1;
  }
  require(low >= 2, "KV blocks for a context of at least 2 tokens", low);
  return low;
}

void check_members(size_t n, int32_t max_seqs) {
  const auto count = static_cast<int64_t>(n);
  if (count >= 1 && count <= max_seqs) return;
  throw Error(Code::kInvalidRequest, "[engine.admission] expected 1 to " + std::to_string(max_seqs) +
                                         " answers at the same time; got " + std::to_string(count));
}

void check_job(const Job& job, int32_t vocab, int32_t context_length) {
  const auto in_vocab = [&](int32_t id) {
    require(id >= 0 && id < vocab, "a token id of the vocabulary", id);
  };
  require(!job.prompt.empty(), "a prompt of at least one token", 0);
  require(job.max_tokens >= 1, "max_tokens of at least 1", job.max_tokens);
  require(job.top_logprobs >= -1 && job.top_logprobs <= vocab, "top_logprobs of -1 to the vocabulary's size",
          job.top_logprobs);
  ops::check(job.params);
  for (const int32_t id : job.prompt) in_vocab(id);
  for (const ops::Bias& bias : job.biases) {
    in_vocab(bias.token);
    require(std::isfinite(bias.value), "a finite bias for token", bias.token);
  }
  if (job.prompt.size() >= static_cast<size_t>(context_length)) {
    throw Error(Code::kContextLength, "[engine.admission] expected a prompt shorter than the context of " +
                                          std::to_string(context_length) + " tokens; got " +
                                          std::to_string(job.prompt.size()) + " tokens");
  }
}

}  // namespace penstock::engine
