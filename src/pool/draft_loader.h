// A draft model beside a model: does its vocabulary fit, what memory does it need, and the executor that runs
// it. Loader thread.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "exec/executor.h"
#include "models/model_files.h"
#include "speculate/draft_model.h"
#include "text/pieces.h"

namespace penstock::pool {

/// Opened and measured, not loaded. The files must outlive the executor.
struct Draft {
  std::shared_ptr<const models::ModelFiles> files;
  std::unique_ptr<exec::Executor> executor;
  exec::MemoryPlan memory;
  exec::Limits limits;  // of which the block counts are planned together with the target's
};

/// `limits`: the target's. Throws Error(kUnsupported) as measure does.
Draft measure_draft(std::shared_ptr<const models::ModelFiles> files, std::unique_ptr<exec::Executor> executor,
                    const exec::Limits& limits);

/// Loads what was measured. `target_weight_bytes` tell what a token costs beside the target's.
std::unique_ptr<speculate::DraftModel> load_draft(Draft draft, size_t target_weight_bytes);

/// Throws Error(kInvalidRequest) naming the first id that the two do not have in common.
void require_same_vocabulary(const text::Pieces& target, const text::Pieces& draft);

}  // namespace penstock::pool
