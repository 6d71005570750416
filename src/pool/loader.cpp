#include "pool/loader.h"

#include <algorithm>
#include <chrono>
#include <future>

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "engine/engine.h"
#include "pool/cache_plan.h"
#include "pool/executors.h"
#include "pool/fingerprint.h"
#include "pool/model_text.h"

namespace penstock::pool {
namespace {

using base::Code;
using base::Error;

// Of threads' stacks, the tokenizer and others that load at the same time: no reason to plan anew.
constexpr uint64_t kSlackBytes = uint64_t{128} << 20;

std::optional<uint64_t> growth(const std::optional<uint64_t>& before, const std::optional<uint64_t>& after) {
  if (!before || !after) return std::nullopt;
  return *after > *before ? *after - *before : 0;
}

/// What the load really took, beside the plan.
void note_measured(ModelMemory& memory, const ProcessMemory& before, const std::string& name) {
  const ProcessMemory after = process_memory();
  memory.measured_resident_bytes = growth(before.resident_bytes, after.resident_bytes);
  memory.measured_allocated_bytes = growth(before.allocated_bytes, after.allocated_bytes);
  const uint64_t allocated = memory.measured_allocated_bytes.value_or(0);
  base::log::info("{}: planned {} (weights {}, cache {}, buffers {}), allocated {}, resident {}", name,
                  megabytes(memory.planned_bytes()), megabytes(memory.weight_bytes),
                  megabytes(memory.cache_bytes), megabytes(memory.buffer_bytes), megabytes(allocated),
                  megabytes(memory.measured_resident_bytes.value_or(0)));
  if (!memory.on_device && allocated > memory.planned_bytes() + kSlackBytes)
    base::log::warn("{} took {} more than was planned for", name,
                    megabytes(allocated - memory.planned_bytes()));
}

/// Keeps the files mapped for as long as the engine reads them. The engine goes first.
struct Resident {
  MemoryGuard::Reservation reservation;
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
  limits.kv_format = options.kv_format;
  limits.vocab_tokens = std::move(vocab_tokens);
  const auto guard = options.memory != nullptr ? options.memory : std::make_shared<MemoryGuard>();
  const auto order = executor_order(options.executor);
  for (const std::string& name : order) {
    try {
      auto executor = make_executor(name, options.cpu_instructions);
      const exec::MemoryPlan memory = executor->measure(files.plan, files.weights, limits);
      const CachePlan planned =
          plan_cache({files.plan, memory, executor->caps(), options, loaded.context_length}, *guard);
      limits.n_blocks = planned.n_blocks;
      loaded.memory = planned.memory;
      if (!planned.memory.on_device)
        loaded.reservation = guard->reserve(planned.memory.planned_bytes(), options.name);
      executor->load(files.plan, files.weights, limits);
      loaded.executor = std::move(executor);
      return loaded;
    } catch (const Error& error) {
      loaded.reservation.reset();
      if (error.code() != Code::kUnsupported || name == order.back()) throw;
      base::log::warn("executor {} does not take this model: {}", name, error.text());
      loaded.refused_by.push_back(name + ": " + std::string(error.text()));
    }
  }
  return loaded;
}

std::shared_ptr<Model> load_model(const std::filesystem::path& path, const LoadOptions& options) {
  const ProcessMemory before = process_memory();
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
  model->memory = loaded.memory;
  resident->reservation = std::move(loaded.reservation);
  engine::EngineOptions engine = engine_options(options, loaded);
  model->block_tokens = loaded.executor->caps().block_tokens;
  if (options.disk != nullptr) {
    engine.disk = options.disk;
    engine.fingerprint = model->fingerprint = fingerprint_of(files, loaded.executor->caps());
  }
  resident->engine = std::make_unique<engine::Engine>(std::move(loaded.executor), files.plan, engine);
  model->generator = std::shared_ptr<engine::Generator>(resident, resident->engine.get());
  note_measured(model->memory, before, model->id);
  ++n_models_loaded;
  return model;
}

}  // namespace penstock::pool
