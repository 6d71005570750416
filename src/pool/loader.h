// Turns a model's files into a Model that serves: files opened, executor chosen, memory sized, engine
// started.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "models/model_files.h"
#include "pool/memory_guard.h"
#include "pool/model.h"

namespace penstock::pool {

struct LoadOptions {
  std::string name;                // it will be served under
  std::vector<std::string> names;  // that it answers to as well
  std::string executor = "auto";
  std::string cpu_instructions = "auto";
  bool exact = false;
  ops::KvFormat kv_format = ops::KvFormat::kPlain;
  std::string tool_format = "auto", reasoning_format = "auto";  // names of formats
  int32_t threads = 0;                                          // 0: as many as the process may use
  int32_t max_seqs = 16;
  int32_t max_queue = 256;
  bool prefix_cache = true;
  int32_t max_draft_tokens = 0;
  speculate::Use draft_use = speculate::Use::kAuto;
  std::filesystem::path draft_model;  // its files; empty: none
  int32_t context_length = 0;         // tokens, 0: the model's own
  int32_t prefill_chunk_tokens = 512;
  uint64_t kv_memory_bytes = 0;           // 0: a share of what the guard leaves
  std::shared_ptr<MemoryGuard> memory;    // null: one of its own
  DefaultsSource set_defaults;            // over those of the model's files
  DefaultsSource recommended_defaults;    // under them
  std::function<void()> on_lost;          // the engine's
  std::shared_ptr<tier::DiskStore> disk;  // of cached blocks; null: none
};

/// The places that may say how tokens are drawn, the strongest first; `of_files` is the model's own
/// generation_config.json.
std::vector<DefaultsSource> defaults_sources(const LoadOptions& options, const GenerationDefaults& of_files);

/// An executor with the plan loaded, and what was decided on the way.
struct LoadedExecutor {
  std::unique_ptr<exec::Executor> executor;
  exec::Limits limits;
  int32_t context_length = 0;  // tokens that one sequence may use
  ModelMemory memory;          // as planned
  MemoryGuard::Reservation reservation, draft_reservation;
  std::vector<std::string> refused_by;                 // "mlx: why", for executors that were tried first
  std::unique_ptr<speculate::DraftModel> draft_model;  // where there are files of one
};

/// Tries the executors of `options.executor` in order; each takes the plan whole or not at all. `files` must
/// outlive it. Ids from `vocab_tokens()` on are never drawn; null: all may be. `draft`: files of a draft
/// model that shares the memory and must outlive it too, or null.
LoadedExecutor load_executor(const models::ModelFiles& files, const LoadOptions& options,
                             std::function<int32_t()> vocab_tokens = {},
                             const std::shared_ptr<const models::ModelFiles>& draft = nullptr);

/// What the engine needs to know of a loaded executor.
engine::EngineOptions engine_options(const LoadOptions& options, const LoadedExecutor& loaded);

/// Opens, loads and starts. Throws Error naming what is wrong with the files or what does not fit.
std::shared_ptr<Model> load_model(const std::filesystem::path& path, const LoadOptions& options);

}  // namespace penstock::pool
