#include "pool/loader.h"

#include <algorithm>
#include <future>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "base/unix_time.h"
#include "engine/engine.h"
#include "pool/cache_plan.h"
#include "pool/draft_loader.h"
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

/// Where steps overlap, the text is behind when the next step is planned.
void require_drafts_checked(const exec::Caps& caps, const LoadOptions& options) {
  if (options.draft_use == speculate::Use::kNgram || options.draft_use == speculate::Use::kSuffix) {
    throw Error(Code::kInvalidRequest,
                "[pool.load] expected draft_source auto or model with a draft model; got one without it");
  }
  if (options.max_draft_tokens < 1) {
    throw Error(Code::kInvalidRequest,
                "[pool.load] expected max_draft_tokens of at least 1 with a draft model; got 0");
  }
  if (caps.steps_in_flight == 1 && caps.max_draft_tokens > 0) return;
  throw Error(Code::kInvalidRequest,
              "[pool.load] expected an executor that checks drafts for the draft model; got " + caps.name);
}

/// The draft model gets what the model left; both count as one.
void plan_draft(Draft& draft, const LoadOptions& options, MemoryGuard& guard, LoadedExecutor& loaded) {
  LoadOptions own = options;
  own.name = "the draft model " + draft.files->path.filename().string();
  own.kv_memory_bytes = 0;
  const CachePlan planned = plan_cache(
      {draft.files->plan, draft.memory, draft.executor->caps(), own, draft.limits.max_context}, guard);
  draft.limits.n_blocks = planned.n_blocks;
  loaded.memory.weight_bytes += planned.memory.weight_bytes;
  loaded.memory.cache_bytes += planned.memory.cache_bytes;
  loaded.memory.buffer_bytes += planned.memory.buffer_bytes;
  if (!planned.memory.on_device)
    loaded.draft_reservation = guard.reserve(planned.memory.planned_bytes(), own.name);
}

// Of a step of texts, where the context is not more.
constexpr int32_t kTexts = 64, kTextTokens = 1024;

bool encodes(const models::Plan& plan) {
  return plan.task != models::Task::kGenerate;
}

/// Keeps the files mapped for as long as the engine reads them. The engine goes first.
struct Resident {
  MemoryGuard::Reservation reservation, draft_reservation;
  models::ModelFiles files;
  std::shared_ptr<models::ModelFiles> draft_files;
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<engine::Encoder> encoder;
};

ModelText text_of(const models::ModelFiles& files) {
  return files.checkpoint->gguf() != nullptr ? read_model_text(*files.checkpoint->gguf())
                                             : read_model_text(files.path, files.config);
}

/// The draft model's files and its tokenizer, which is only looked at to compare it; nothing without one.
ModelText open_draft(const LoadOptions& options, Resident& resident) {
  if (options.draft_model.empty()) return {};
  resident.draft_files = std::make_shared<models::ModelFiles>(models::open_model(options.draft_model));
  return text_of(*resident.draft_files);
}

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
  engine.draft_use = options.draft_use;
  engine.context_length = loaded.context_length;
  engine.n_blocks = loaded.limits.n_blocks;
  engine.on_lost = options.on_lost;
  return engine;
}

LoadedExecutor load_executor(const models::ModelFiles& files, const LoadOptions& options,
                             std::function<int32_t()> vocab_tokens,
                             const std::shared_ptr<const models::ModelFiles>& draft_files) {
  LoadedExecutor loaded;
  const bool texts = encodes(files.plan);
  loaded.context_length = options.context_length == 0 ? files.plan.max_position : options.context_length;
  // The setting is for all models of a server: one that encodes has its own, shorter limit beside the others.
  if (texts) loaded.context_length = std::min(loaded.context_length, files.plan.max_position);
  if (loaded.context_length > files.plan.max_position) {
    throw Error(Code::kInvalidRequest,
                fmt::format("[pool.load] expected a context of at most the model's {} tokens; got {}",
                            files.plan.max_position, options.context_length));
  }
  exec::Limits& limits = loaded.limits;
  limits.max_slots = texts ? kTexts : options.max_seqs;
  limits.max_batch_tokens =
      texts ? std::max(kTextTokens, loaded.context_length) : options.prefill_chunk_tokens + options.max_seqs;
  limits.max_context = loaded.context_length;
  limits.threads = options.threads;
  limits.exact = options.exact;
  limits.kv_format = texts ? ops::KvFormat::kPlain : options.kv_format;  // nothing is kept of texts
  limits.vocab_tokens = std::move(vocab_tokens);
  const auto guard = options.memory != nullptr ? options.memory : std::make_shared<MemoryGuard>();
  const auto order = executor_order(options.executor);
  for (const std::string& name : order) {
    try {
      auto executor = make_executor(name, options.cpu_instructions);
      const exec::MemoryPlan memory = executor->measure(files.plan, files.weights, limits);
      const CacheNeeds needs{files.plan, memory, executor->caps(), options, loaded.context_length};
      const CachePlan planned = texts ? plan_texts(needs, limits, *guard) : plan_cache(needs, *guard);
      limits.n_blocks = planned.n_blocks;
      loaded.memory = planned.memory;
      if (!planned.memory.on_device)
        loaded.reservation = guard->reserve(planned.memory.planned_bytes(), options.name);
      if (texts && draft_files != nullptr) {
        throw Error(Code::kInvalidRequest,
                    "[pool.load] expected a model that generates beside a draft model; got one that encodes");
      }
      if (draft_files == nullptr && options.draft_use == speculate::Use::kModel) {
        throw Error(Code::kInvalidRequest,
                    "[pool.load] expected a draft model for draft_source model; got none");
      }
      std::optional<Draft> draft;
      if (draft_files != nullptr) {
        require_drafts_checked(executor->caps(), options);
        draft = measure_draft(draft_files, make_executor(name, options.cpu_instructions), limits);
        plan_draft(*draft, options, *guard, loaded);
      }
      executor->load(files.plan, files.weights, limits);
      if (draft) loaded.draft_model = load_draft(std::move(*draft), memory.weight_bytes);
      loaded.executor = std::move(executor);
      return loaded;
    } catch (const Error& error) {
      loaded.reservation.reset();
      loaded.draft_reservation.reset();
      if (error.code() != Code::kUnsupported || name == order.back()) throw;
      base::log::warn("executor {} does not take this model: {}", name, error.text());
      loaded.refused_by.push_back(name + ": " + std::string(error.text()));
    }
  }
  return loaded;
}

namespace {

void start_engine(Model& model, const std::shared_ptr<Resident>& resident, LoadedExecutor& loaded,
                  const LoadOptions& options) {
  engine::EngineOptions engine = engine_options(options, loaded);
  if (options.disk != nullptr) {
    engine.disk = options.disk;
    engine.fingerprint = model.fingerprint = fingerprint_of(resident->files, loaded.executor->caps());
  }
  resident->engine = std::make_unique<engine::Engine>(std::move(loaded.executor), resident->files.plan,
                                                      engine, std::move(loaded.draft_model));
  model.generator = std::shared_ptr<engine::Generator>(resident, resident->engine.get());
}

void start_encoder(Model& model, const std::shared_ptr<Resident>& resident, LoadedExecutor& loaded,
                   const LoadOptions& options) {
  const engine::EncoderOptions encoder{options.max_queue, loaded.limits.max_slots,
                                       loaded.limits.max_batch_tokens, loaded.context_length};
  resident->encoder =
      std::make_unique<engine::Encoder>(std::move(loaded.executor), resident->files.plan, encoder);
  model.encoder = std::shared_ptr<engine::Encoder>(resident, resident->encoder.get());
  model.generator = model.encoder;
  model.scores_pairs = resident->files.plan.task == models::Task::kScore;
}

}  // namespace

std::shared_ptr<Model> load_model(const std::filesystem::path& path, const LoadOptions& options) {
  const ProcessMemory before = process_memory();
  auto resident = std::make_shared<Resident>();
  resident->files = models::open_model(path);
  const models::ModelFiles& files = resident->files;
  // The tokenizer is made while the weights are packed.
  const std::shared_future<ModelText> promised =
      std::async(std::launch::async, [&files] { return text_of(files); });
  const ModelText draft_text = open_draft(options, *resident);
  for (const auto& key : files.spec.unknown_keys)
    base::log::warn("config.json: {} is not known and not used", key);
  if (draft_text.codec) require_same_vocabulary(*promised.get().codec, *draft_text.codec);
  LoadedExecutor loaded = load_executor(
      files, options, [promised] { return promised.get().codec->vocab_size(); }, resident->draft_files);
  const ModelText& text = promised.get();
  for (const auto& warning : text.warnings) base::log::warn("{}", warning);
  auto model = std::make_shared<Model>();
  model->id = options.name;
  model->names = options.names;
  model->created = base::unix_seconds();
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
  resident->draft_reservation = std::move(loaded.draft_reservation);
  model->block_tokens = loaded.executor->caps().block_tokens;
  if (encodes(files.plan))
    start_encoder(*model, resident, loaded, options);
  else
    start_engine(*model, resident, loaded, options);
  note_measured(model->memory, before, model->id);
  ++n_models_loaded;
  return model;
}

}  // namespace penstock::pool
