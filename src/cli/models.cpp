#include "cli/models.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "pool/memory_guard.h"

namespace penstock::cli {
namespace {

void on_interrupt(int) {
  if (interrupted().exchange(true)) _exit(kInterrupted);
}

/// One line that is drawn over itself on a terminal, and now and then a line elsewhere.
class ProgressLine {
 public:
  void show(const store::Progress& progress) {
    const auto now = std::chrono::steady_clock::now();
    const bool done = progress.total_bytes != 0 && progress.done_bytes >= progress.total_bytes;
    const auto pause = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(5000);
    if (now - last_ < pause && !(done && !finished_)) return;
    last_ = now;
    finished_ = done;
    const double percent = progress.total_bytes == 0 ? 0
                                                     : 100.0 * static_cast<double>(progress.done_bytes) /
                                                           static_cast<double>(progress.total_bytes);
    std::string bar(static_cast<size_t>(percent / 5), '#');
    bar.resize(20, '.');
    const std::string line = fmt::format("[{}] {:5.1f} % {:7.1f} of {:.1f} MB  {:.40}", bar, percent,
                                         static_cast<double>(progress.done_bytes) / 1e6,
                                         static_cast<double>(progress.total_bytes) / 1e6, progress.what);
    std::fprintf(stderr, terminal_ ? "\r%-100s%s" : "%s%s", line.c_str(), terminal_ && !done ? "" : "\n");
    std::fflush(stderr);
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  bool finished_ = false;
  std::chrono::steady_clock::time_point last_;
};

template <class T>
std::optional<T> as(const std::optional<double>& value) {
  return value ? std::optional<T>(static_cast<T>(*value)) : std::nullopt;
}

pool::GenerationDefaults set_defaults(const config::Settings& settings) {
  return {.temperature = as<float>(settings.default_temperature),
          .top_p = as<float>(settings.default_top_p),
          .min_p = as<float>(settings.default_min_p),
          .repetition_penalty = as<float>(settings.default_repetition_penalty),
          .top_k = as<int32_t>(settings.default_top_k)};
}

speculate::Use draft_use(const std::string& source) {
  if (source == "ngram") return speculate::Use::kNgram;
  if (source == "suffix") return speculate::Use::kSuffix;
  if (source == "model") return speculate::Use::kModel;
  return speculate::Use::kAuto;
}

}  // namespace

std::atomic<bool>& interrupted() {
  static std::atomic<bool> flag = false;
  return flag;
}

void catch_interrupts() {
  std::signal(SIGINT, on_interrupt);
}

store::Registry make_registry(const Program& program) {
  return {store::registry_options(program.environment), program.environment};
}

store::Watch watch_on_terminal() {
  catch_interrupts();
  store::Watch watch;
  auto line = std::make_shared<ProgressLine>();
  watch.on_progress = [line](const store::Progress& progress) { line->show(progress); };
  watch.on_note = [](const std::string& note) { std::fprintf(stderr, "%s\n", note.c_str()); };
  watch.cancel = &interrupted();
  return watch;
}

store::Located locate_or_pull(const Program& program, const std::string& name) {
  store::Registry registry = make_registry(program);
  if (!name.empty()) {
    if (auto located = registry.find(name)) return *located;
    return registry.pull(name, watch_on_terminal());
  }
  const std::string picked = registry.pick_default(pool::machine_memory().total_bytes, watch_on_terminal());
  std::fprintf(stderr, "no model named: taking %s\n", picked.c_str());
  return registry.pull(picked, watch_on_terminal());
}

void add_sampling_flags(CLI::App& command, chat::Sampling& sampling, const std::string& temperature_default) {
  command
      .add_option("--temperature", sampling.temperature,
                  "0 always takes the likeliest token; default: " + temperature_default)
      ->check(CLI::Range(0.0, 100.0));
  command.add_option("--top-p", sampling.top_p, "Draw from the likeliest tokens that reach this mass")
      ->check(CLI::Range(0.0, 1.0));
  command.add_option("--top-k", sampling.top_k, "Draw from this many tokens, 0: all")
      ->check(CLI::Range(0, INT32_MAX));
  command.add_option("--min-p", sampling.min_p, "Drop tokens below this share of the likeliest")
      ->check(CLI::Range(0.0, 1.0));
  command
      .add_option("--repetition-penalty", sampling.repetition_penalty,
                  "Above 1 makes tokens of the prompt and the answer less likely; 1: off")
      ->check(CLI::Range(0.01, 10.0));
}

std::shared_ptr<pool::MemoryGuard> memory_guard(const config::Settings& settings) {
  pool::GuardOptions options;
  options.tier = settings.memory_guard;
  options.limit = settings.memory_limit;
  return std::make_shared<pool::MemoryGuard>(std::move(options));
}

pool::LoadOptions load_options(const config::Settings& settings, const store::Located& located) {
  pool::LoadOptions options;
  // A local model is served under its own name, not under the path that led to it; it answers to both.
  options.name =
      located.repo.empty() && std::filesystem::exists(located.path) &&
              located.name.find('/') != std::string::npos
          ? (located.path.extension() == ".gguf" ? located.path.stem() : located.path.filename()).string()
          : located.name;
  if (options.name != located.name) options.names.push_back(located.name);
  if (!settings.served_model_name.empty()) {
    options.names.push_back(options.name);
    options.name = settings.served_model_name;
    std::erase(options.names, options.name);
  }
  options.executor = settings.executor;
  options.cpu_instructions = settings.cpu_instructions;
  options.exact = settings.exact;
  options.kv_format = ops::kv_format_named(settings.kv_format);
  options.tool_format = settings.tool_format;
  options.reasoning_format = settings.reasoning_format;
  options.threads = static_cast<int32_t>(settings.threads);
  options.max_seqs = static_cast<int32_t>(settings.max_num_seqs);
  options.max_queue = static_cast<int32_t>(settings.max_queue);
  options.prefix_cache = settings.prefix_cache;
  options.max_draft_tokens = static_cast<int32_t>(settings.max_draft_tokens);
  options.draft_use = draft_use(settings.draft_source);
  options.context_length = static_cast<int32_t>(settings.context_length);
  options.prefill_chunk_tokens = static_cast<int32_t>(settings.prefill_chunk_tokens);
  options.memory = memory_guard(settings);
  options.kv_memory_bytes = static_cast<uint64_t>(settings.kv_memory_bytes);
  options.set_defaults = {"settings default_*", set_defaults(settings)};
  if (const store::Alias* alias = store::alias_of_file(located.path)) {
    options.recommended_defaults = {"alias " + alias->name, pool::read_generation_config(alias->sampling)};
  }
  return options;
}

pool::LoadOptions load_options_with_draft(const Program& program, const config::Settings& settings,
                                          const store::Located& located) {
  pool::LoadOptions options = load_options(settings, located);
  if (!settings.draft_model.empty()) options.draft_model = locate_or_pull(program, settings.draft_model).path;
  return options;
}

}  // namespace penstock::cli
