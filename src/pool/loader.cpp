#include "pool/loader.h"

#include <algorithm>
#include <chrono>
#include <future>

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "engine/engine.h"
#include "pool/executors.h"
#include "pool/fingerprint.h"
#include "pool/memory.h"
#include "pool/model_text.h"

namespace penstock::pool {
namespace {

using base::Code;
using base::Error;

int32_t blocks_of(int64_t tokens, int32_t block_tokens) {
  return static_cast<int32_t>((tokens + block_tokens - 1) / block_tokens);
}

/// Blocks that one sequence of `context` tokens holds at once in a group: a window needs itself, the chunks
/// that are being written, and a block on either side for the cuts.
int32_t blocks_per_sequence(const models::KvGroup& group, int32_t context, const LoadOptions& options,
                            const exec::Caps& caps) {
  const int32_t whole = blocks_of(context, caps.block_tokens);
  if (group.window == 0) return whole;
  const int64_t unread = int64_t{options.prefill_chunk_tokens} * caps.steps_in_flight;
  return std::min(whole, blocks_of(group.window + unread, caps.block_tokens) + 2);
}

struct KvPlan {
  std::vector<int32_t> n_blocks;
  uint64_t bytes = 0;
};

KvPlan plan_kv(const models::Plan& plan, const exec::MemoryPlan& memory, const LoadOptions& options,
               int32_t context, const exec::Caps& caps) {
  const uint64_t budget = options.kv_memory_bytes != 0 ? options.kv_memory_bytes
                                                       : automatic_cache_bytes(memory, options.max_seqs);
  KvPlan kv;
  for (int32_t sequences = options.max_seqs; sequences >= 1; --sequences) {
    kv = {};
    for (size_t g = 0; g < plan.kv_groups.size(); ++g) {
      kv.n_blocks.push_back(sequences * blocks_per_sequence(plan.kv_groups[g], context, options, caps));
      kv.bytes += static_cast<uint64_t>(kv.n_blocks.back()) * memory.block_bytes[g];
    }
    if (kv.bytes <= budget) return kv;
  }
  throw NoMemory(
      fmt::format("[pool.load] expected memory for one sequence of {} tokens, "
                  "{} MB of cache; got {} MB: set a smaller "
                  "--context-length or a larger --kv-memory-bytes",
                  context, kv.bytes >> 20, budget >> 20));
}

/// Keeps the files mapped for as long as the engine reads them. The engine goes first.
struct Resident {
  models::ModelFiles files;
  std::unique_ptr<engine::Engine> engine;
};

}  // namespace

std::vector<DefaultsSource> defaults_sources(const LoadOptions& options, const GenerationDefaults& of_files) {
  return {options.set_defaults, {"generation_config.json", of_files}, options.recommended_defaults};
}

engine::EngineOptions engine_options(const LoadOptions& options, const LoadedExecutor& loaded) {
  engine::EngineOptions engine;
  engine.max_seqs = options.max_seqs;
  engine.max_queue = options.max_queue;
  engine.max_batch_tokens = loaded.limits.max_batch_tokens;
  engine.prefill_chunk_tokens = options.prefill_chunk_tokens;
  engine.prefix_cache = options.prefix_cache;
  engine.max_draft_tokens = options.max_draft_tokens;
  engine.context_length = loaded.context_length;
  engine.n_blocks = loaded.limits.n_blocks;
  engine.on_lost = options.on_lost;
  return engine;
}

LoadedExecutor load_executor(const models::ModelFiles& files, const LoadOptions& options,
                             std::function<int32_t()> vocab_tokens) {
  LoadedExecutor loaded;
  loaded.context_length = options.context_length == 0 ? files.plan.max_position : options.context_length;
  if (loaded.context_length > files.plan.max_position) {
    throw Error(Code::kInvalidRequest,
                fmt::format("[pool.load] expected a context of at most the model's {} tokens; got {}",
                            files.plan.max_position, options.context_length));
  }
  exec::Limits& limits = loaded.limits;
  limits.max_slots = options.max_seqs;
  limits.max_batch_tokens = options.prefill_chunk_tokens + options.max_seqs;
  limits.max_context = loaded.context_length;
  limits.threads = options.threads;
  limits.exact = options.exact;
  limits.vocab_tokens = std::move(vocab_tokens);
  const auto order = executor_order(options.executor);
  for (const std::string& name : order) {
    try {
      auto executor = make_executor(name, options.cpu_instructions);
      const exec::MemoryPlan memory = executor->measure(files.plan, files.weights, limits);
      limits.n_blocks =
          plan_kv(files.plan, memory, options, loaded.context_length, executor->caps()).n_blocks;
      executor->load(files.plan, files.weights, limits);
      loaded.executor = std::move(executor);
      return loaded;
    } catch (const Error& error) {
      if (error.code() != Code::kUnsupported || name == order.back()) throw;
      base::log::warn("executor {} does not take this model: {}", name, error.text());
      loaded.refused_by.push_back(name + ": " + std::string(error.text()));
    }
  }
  return loaded;
}

std::shared_ptr<Model> load_model(const std::filesystem::path& path, const LoadOptions& options) {
  auto resident = std::make_shared<Resident>();
  resident->files = models::open_model(path);
  const models::ModelFiles& files = resident->files;
  // The tokenizer is made while the weights are packed.
  const std::shared_future<ModelText> promised = std::async(std::launch::async, [&files, &path] {
    return files.checkpoint->gguf() != nullptr ? read_model_text(*files.checkpoint->gguf())
                                               : read_model_text(path, files.config);
  });
  for (const auto& key : files.spec.unknown_keys)
    base::log::warn("config.json: {} is not known and not used", key);
  LoadedExecutor loaded =
      load_executor(files, options, [promised] { return promised.get().codec->vocab_size(); });
  const ModelText& text = promised.get();
  for (const auto& warning : text.warnings) base::log::warn("{}", warning);
  auto model = std::make_shared<Model>();
  model->id = options.name;
  model->names = options.names;
  model->created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  model->family = files.plan.family;
  model->format = files.format;
  model->executor = loaded.executor->caps().name;
  model->executor_detail = loaded.executor->caps().detail;
  model->context_length = loaded.context_length;
  model->stop_ids = text.stop_ids;
  model->defaults = combine(defaults_sources(options, text.defaults));
  model->codec = text.codec;
  model->guard = std::make_shared<text::ControlGuard>(*text.codec);
  engine::EngineOptions engine = engine_options(options, loaded);
  model->block_tokens = loaded.executor->caps().block_tokens;
  if (options.disk != nullptr) {
    engine.disk = options.disk;
    engine.fingerprint = model->fingerprint = fingerprint_of(files, loaded.executor->caps());
  }
  resident->engine = std::make_unique<engine::Engine>(std::move(loaded.executor), files.plan, engine);
  model->generator = std::shared_ptr<engine::Generator>(resident, resident->engine.get());
  ++n_models_loaded;
  return model;
}

}  // namespace penstock::pool
