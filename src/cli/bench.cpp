// penstock bench: how fast a model runs here, through the engine that serves it.
#include <algorithm>
#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "cli/bandwidth.h"
#include "cli/models.h"
#include "cli/settings_flags.h"
#include "cli/token_stream.h"
#include "engine/engine.h"
#include "exec/logits_runner.h"
#include "models/model_files.h"
#include "pool/executors.h"
#include "quant/format.h"

namespace penstock::cli {
namespace {

using base::Json;

struct BenchOptions {
  std::string model;
  int32_t prompt = 512, gen = 64, depth = 0, batch = 1, repeat = 5;
  bool json = false;
};

struct Spread {
  double median = 0, low = 0, high = 0;
};

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

Json to_json(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.low}, {"max", spread.high}};
}

/// Token ids that are ordinary for any vocabulary and differ between sequences.
std::vector<int32_t> tokens(int32_t count, int32_t vocab, int32_t sequence) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<int32_t>(
        base::splitmix64(static_cast<uint64_t>(sequence) << 32 | static_cast<uint64_t>(i)) %
        static_cast<uint64_t>(vocab)));
  }
  return ids;
}

/// Runs `batch` equal jobs at once; the receipts of all.
std::vector<engine::Receipt> run_jobs(engine::Engine& engine, const BenchOptions& options, int32_t vocab,
                                      int32_t prompt, int32_t gen) {
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (int32_t i = 0; i < options.batch; ++i) {
    engine::Job job;
    job.prompt = tokens(prompt, vocab, i);
    job.max_tokens = gen;
    job.use_cache = false;  // every run computes its prompt
    streams.push_back(std::make_shared<TokenStream>());
    engine.submit(std::move(job), streams.back());
  }
  std::vector<engine::Receipt> receipts;
  for (const auto& stream : streams) {
    std::optional<engine::Receipt> receipt;
    while (!(receipt = stream->finished())) stream->take();
    if (receipt->finish == engine::Finish::kFailed) {
      throw base::Error(base::Code::kInternal,
                        "[cli.bench] expected a finished generation; got " + receipt->error);
    }
    receipts.push_back(*receipt);
  }
  return receipts;
}

/// FNV-1a of the float32 logits after the last token of the prompt: equal bits, equal hash.
uint64_t logits_hash(exec::Executor& executor, const models::Plan& plan, const exec::Limits& limits,
                     int32_t prompt) {
  exec::LogitsRunner::Feed feed{tokens(std::min(prompt, 128), plan.vocab, 0), {64}};
  exec::LogitsRunner runner(executor, plan, limits);
  const auto logits = runner.run({feed})[0];
  return base::fnv1a(std::span(logits).last(static_cast<size_t>(plan.vocab)));
}

/// Bytes of weights that a step reads, as this executor holds them.
uint64_t weight_bytes(exec::Executor& executor, const models::ModelFiles& files, const exec::Limits& limits) {
  uint64_t bytes = executor.measure(files.plan, files.weights, limits).weight_bytes;
  if (!files.spec.tied_head) {  // a separate embedding table is read one row a token
    const auto& embedding = files.weights.front();
    bytes -= embedding.format->row_bytes(embedding) * static_cast<uint64_t>(embedding.rows);
  }
  return bytes;
}

/// What the memory allows, measured next to the speeds, and how near decoding came to it.
Json memory_report(int threads, uint64_t weights, const Json& decode, int32_t batch) {
  const Bandwidth read = read_bandwidth(threads, size_t{512} << 20);
  const uint64_t cache = last_level_cache_bytes();
  Json report = {{"read_bandwidth_bytes_per_s", read.bytes_per_s},
                 {"read_streams", read.streams},
                 {"weight_bytes_per_step", weights},
                 {"last_level_cache_bytes", cache},
                 {"weights_fit_in_cache", weights <= cache},
                 {"weight_bytes_per_token", nullptr},
                 {"decode_bytes_per_s", nullptr},
                 {"percent_of_read_bandwidth", nullptr}};
  if (decode.is_null()) return report;
  const double steps_per_s = decode["median"].get<double>() / batch;
  const double bytes_per_s = steps_per_s * static_cast<double>(weights);
  report["weight_bytes_per_token"] = weights / static_cast<uint64_t>(batch);
  report["decode_bytes_per_s"] = bytes_per_s;
  report["percent_of_read_bandwidth"] = 100 * bytes_per_s / read.bytes_per_s;
  return report;
}

void print_memory(const Json& result) {
  const auto giga = [&](const char* key) { return result[key].get<double>() / 1e9; };
  const auto mega = [&](const char* key) { return static_cast<double>(result[key].get<uint64_t>()) / 1e6; };
  std::cout << fmt::format(
      "memory  reads {:.1f} GB/s with {} streams a thread; decoding reads {:.1f} MB of "
      "weights a step, {:.1f} GB/s, {:.0f} % of that\n",
      giga("read_bandwidth_bytes_per_s"), result["read_streams"].get<int>(), mega("weight_bytes_per_step"),
      giga("decode_bytes_per_s"), result["percent_of_read_bandwidth"].get<double>());
  std::cout << fmt::format("        the weights {} in the last-level cache of {:.1f} MB\n",
                           result["weights_fit_in_cache"].get<bool>() ? "fit" : "do not fit",
                           mega("last_level_cache_bytes"));
}

void print(const Json& result) {
  const auto rate = [](const Json& r) {
    return fmt::format("{:.1f} tokens/s (min {:.1f}, max {:.1f})", r["median"].get<double>(),
                       r["min"].get<double>(), r["max"].get<double>());
  };
  std::cout << fmt::format("{} on {} ({})\n", result["model"].get<std::string>(),
                           result["executor"].get<std::string>(),
                           result["executor_detail"].get<std::string>());
  std::cout << fmt::format("prefill {:6} tokens   {}\n", result["prompt"].get<int>(),
                           rate(result["prefill_tokens_per_s"]));
  std::cout << fmt::format("decode  {:6} tokens   {}  batch {}, depth {}\n", result["gen"].get<int>(),
                           rate(result["decode_tokens_per_s"]), result["batch"].get<int>(),
                           result["depth"].get<int>());
  print_memory(result);
  std::cout << fmt::format("logits  {}\n", result["logits_hash"].get<std::string>());
}

Json measure(engine::Engine& engine, const models::ModelFiles& files, const BenchOptions& options) {
  std::vector<double> prefill, decode;
  int32_t width = 0;
  const int32_t depth = std::max(options.depth, 1);
  run_jobs(engine, options, files.plan.vocab, std::min(options.prompt, 64), 4);  // touches every weight once
  for (int32_t i = 0; i < options.repeat; ++i) {
    BenchOptions one = options;
    one.batch = 1;
    if (options.prompt > 0) {
      const auto receipt = run_jobs(engine, one, files.plan.vocab, options.prompt, 1).front();
      prefill.push_back(options.prompt * 1000.0 / receipt.prefill_ms);
    }
    if (options.gen > 1) {
      double slowest = 0;
      for (const auto& receipt : run_jobs(engine, options, files.plan.vocab, depth, options.gen)) {
        slowest = std::max(slowest, receipt.decode_ms);
        width = std::max(width, receipt.max_batch_width);
      }
      decode.push_back(options.batch * (options.gen - 1) * 1000.0 / slowest);
    }
  }
  Json result;
  result["prefill_tokens_per_s"] = prefill.empty() ? Json(nullptr) : to_json(spread(prefill));
  result["decode_tokens_per_s"] = decode.empty() ? Json(nullptr) : to_json(spread(decode));
  result["max_batch_width"] = width;
  return result;
}

int run(const Program& program, const BenchOptions& options, const config::Settings& settings) {
  const store::Located located = locate_or_pull(program, options.model);
  const models::ModelFiles files = models::open_model(located.path);
  pool::LoadOptions load = load_options(settings, located);
  load.max_seqs = options.batch;
  load.max_draft_tokens = 0;  // plain decoding is what is timed
  load.context_length = std::max(options.prompt, options.depth + options.gen) + 64;
  pool::LoadedExecutor loaded = pool::load_executor(files, load);
  const exec::Caps caps = loaded.executor->caps();
  const uint64_t hash = logits_hash(*loaded.executor, files.plan, loaded.limits, std::max(options.prompt, 1));
  const uint64_t weights = weight_bytes(*loaded.executor, files, loaded.limits);
  engine::Engine engine(std::move(loaded.executor), files.plan, pool::engine_options(load, loaded));
  Json result = {{"model", located.name},          {"format", files.format},   {"executor", caps.name},
                 {"executor_detail", caps.detail}, {"prompt", options.prompt}, {"gen", options.gen},
                 {"depth", options.depth},         {"batch", options.batch},   {"repeat", options.repeat}};
  result.update(measure(engine, files, options));
  engine.stop();
  const int threads = settings.threads > 0 ? static_cast<int>(settings.threads) : pool::usable_cores();
  result.update(memory_report(threads, weights, result["decode_tokens_per_s"], options.batch));
  result["logits_hash"] = fmt::format("{:016x}", hash);
  if (options.json) {
    std::cout << result.dump() << std::endl;
  } else {
    print(result);
  }
  return kDone;
}

}  // namespace

void add_bench(CLI::App& app, Program& program) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand("bench", "Measure prefill and decode speed");
  command->add_option("model", options->model, "Alias, org/name, folder or .gguf file")->required();
  command->add_option("--prompt", options->prompt, "Tokens of the prefill measurement")
      ->default_val(512)
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--gen", options->gen, "Tokens of the decode measurement")
      ->default_val(64)
      ->check(CLI::Range(2, 1 << 20));
  command->add_option("--depth", options->depth, "Tokens in the cache before decoding starts")
      ->default_val(0)
      ->check(CLI::Range(0, 1 << 20));
  command->add_option("--batch", options->batch, "Sequences that decode together")
      ->default_val(1)
      ->check(CLI::Range(1, 1024));
  command->add_option("--repeat", options->repeat, "Repetitions; the median is reported")
      ->default_val(5)
      ->check(CLI::Range(1, 1000));
  command->add_flag("--json", options->json, "Print JSON");
  auto settings = std::make_shared<SettingsFlags>(
      *command, std::vector<std::string>{"executor", "cpu_instructions", "exact", "kv_format", "threads",
                                         "prefill_chunk_tokens", "kv_memory_bytes", "memory_guard",
                                         "memory_limit", "log_level"});
  set_examples(*command,
               "  penstock bench smollm2\n  penstock bench smollm2 --prompt 512 --gen 64 --batch 8 --json");
  command->callback(
      [options, settings, &program] { program.exit = run(program, *options, settings->load(program)); });
}

}  // namespace penstock::cli
