// Which jobs an engine can ever run: checks of options and of jobs, with numbers in every refusal. Pure.
#pragma once

#include "cache/sequence_table.h"
#include "engine/generator.h"
#include "engine/options.h"

namespace penstock::engine {

/// Throws Error(kInvalidRequest) for options that could stall a sequence for ever.
void check_options(const EngineOptions& options);

/// The largest context up to `wanted` whose blocks exist. Throws Error(kInvalidRequest) below two tokens.
int32_t context_that_fits(const cache::Groups& groups, int32_t wanted, int32_t step_tokens);

/// Throws Error(kInvalidRequest) for more answers than may run at the same time.
void check_members(size_t n, int32_t max_seqs);

/// Throws Error(kInvalidRequest) or Error(kContextLength).
void check_job(const Job& job, int32_t vocab, int32_t context_length);

}  // namespace penstock::engine
