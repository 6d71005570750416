// penstock perplexity: how well a model predicts a text, and how far its int8 activations are from float32 or
// a quantised cache from one that is not.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/models.h"
#include "cli/settings_flags.h"
#include "exec/logits_runner.h"
#include "models/model_files.h"
#include "pool/model_text.h"

namespace penstock::cli {
namespace {

using base::Json;

struct PerplexityOptions {
  std::string model, file;
  int32_t window = 512, most_windows = 0;
  bool against_exact = false, against_plain_cache = false, json = false;
};

/// The windows that are run and, of each, the tokens that are scored: those of its second half, which have
/// enough before them. Another program that does the same is comparable.
struct Windows {
  std::vector<std::vector<int32_t>> tokens;
  size_t text_tokens = 0;
};

/// Natural logarithms of one executor's distributions, float64 sums.
struct LogProbs {
  std::span<const float> logits;  // [vocab]
  double log_sum = 0;

  explicit LogProbs(std::span<const float> row) : logits(row) {
    const float most = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const float logit : row) sum += static_cast<double>(std::exp(logit - most));
    log_sum = static_cast<double>(most) + std::log(sum);
  }
  double of(size_t token) const { return static_cast<double>(logits[token]) - log_sum; }
};

/// Sum over tokens of p (log p - log q).
double kl_divergence(const LogProbs& p, const LogProbs& q) {
  double sum = 0;
  for (size_t i = 0; i < p.logits.size(); ++i) {
    const double log_p = p.of(i);
    if (log_p > -40) sum += std::exp(log_p) * (log_p - q.of(i));
  }
  return sum;
}

size_t likeliest(std::span<const float> row) {
  return static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

/// Standard error of the mean.
double error_of(const std::vector<double>& values) {
  const double middle = mean(values);
  double squares = 0;
  for (const double v : values) squares += (v - middle) * (v - middle);
  const auto n = static_cast<double>(values.size());
  return values.size() < 2 ? 0 : std::sqrt(squares / (n - 1) / n);
}

/// One model held by one executor.
class Scorer {
 public:
  Scorer(const models::ModelFiles& files, const pool::LoadOptions& load)
      : files_(files), load_(load), loaded_(pool::load_executor(files, load)) {}

  /// [window, vocab]
  std::vector<float> logits(const std::vector<int32_t>& tokens) {
    exec::LogitsRunner runner(*loaded_.executor, files_.plan, loaded_.limits);
    return std::move(runner.run({{tokens, {load_.prefill_chunk_tokens}}})[0]);
  }
  std::string detail() const { return loaded_.executor->caps().detail; }

 private:
  const models::ModelFiles& files_;
  pool::LoadOptions load_;
  pool::LoadedExecutor loaded_;
};

Windows cut(const PerplexityOptions& options, const models::ModelFiles& files,
            const std::filesystem::path& path) {
  std::ifstream in(options.file, std::ios::binary);
  if (!in)
    throw base::Error(base::Code::kNotFound,
                      "[cli.perplexity] expected a text at " + options.file + "; got no such file");
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const pool::ModelText model = files.checkpoint->gguf() != nullptr
                                    ? pool::read_model_text(*files.checkpoint->gguf())
                                    : pool::read_model_text(path, files.config);
  const std::vector<int32_t> start = model.codec->encode("", true);
  const std::vector<int32_t> ids = model.codec->encode(text, true);
  Windows windows;
  windows.text_tokens = ids.size();
  const auto size = static_cast<size_t>(options.window);
  for (size_t at = 0; at + size <= ids.size(); at += size) {
    if (options.most_windows > 0 && windows.tokens.size() == static_cast<size_t>(options.most_windows)) break;
    const auto first = ids.begin() + static_cast<std::ptrdiff_t>(at);
    windows.tokens.emplace_back(first, first + options.window);
    if (!start.empty()) windows.tokens.back().front() = start.front();
  }
  if (windows.tokens.empty())
    throw base::Error(base::Code::kInvalidRequest,
                      fmt::format("[cli.perplexity] expected a text of at least {} tokens; got {}",
                                  options.window, ids.size()));
  return windows;
}

struct Scores {
  std::vector<double> nats, truth_nats, kl;  // of each scored token
  size_t same_likeliest = 0;
};

void score(const std::vector<int32_t>& tokens, std::span<const float> logits,
           std::span<const float> truth_logits, Scores& scores) {
  const size_t vocab = logits.size() / tokens.size();
  for (size_t at = tokens.size() / 2; at + 1 < tokens.size(); ++at) {
    const auto next = static_cast<size_t>(tokens[at + 1]);
    const LogProbs ours(logits.subspan(at * vocab, vocab));
    scores.nats.push_back(-ours.of(next));
    if (truth_logits.empty()) continue;
    const LogProbs truth(truth_logits.subspan(at * vocab, vocab));
    scores.truth_nats.push_back(-truth.of(next));
    scores.kl.push_back(kl_divergence(truth, ours));
    scores.same_likeliest += likeliest(ours.logits) == likeliest(truth.logits);
  }
}

const char* key_of_truth(const PerplexityOptions& options) {
  return options.against_exact ? "exact_perplexity" : "plain_cache_perplexity";
}

void add_comparison(const PerplexityOptions& options, Scores& scores, Json& result) {
  std::vector<double> rises(scores.nats.size());
  for (size_t i = 0; i < rises.size(); ++i) rises[i] = scores.nats[i] - scores.truth_nats[i];
  result[key_of_truth(options)] = std::exp(mean(scores.truth_nats));
  result["perplexity_rise_percent"] = 100 * (std::exp(mean(rises)) - 1);
  result["perplexity_rise_error_percent"] = 100 * error_of(rises);
  result["mean_kl"] = mean(scores.kl);
  result["mean_kl_error"] = error_of(scores.kl);
  result["same_likeliest_percent"] =
      100.0 * static_cast<double>(scores.same_likeliest) / static_cast<double>(rises.size());
  std::sort(scores.kl.begin(), scores.kl.end());
  result["median_kl"] = scores.kl[scores.kl.size() / 2];
  result["kl_of_99_percent"] = scores.kl[scores.kl.size() * 99 / 100];
  result["most_kl"] = scores.kl.back();
}

void print(const Json& result) {
  const auto number = [&](const char* key) { return result[key].get<double>(); };
  std::cout << fmt::format("{} ({})\nperplexity {:.4f} over {} tokens of {}\n",
                           result["model"].get<std::string>(), result["executor_detail"].get<std::string>(),
                           number("perplexity"), result["scored_tokens"].get<size_t>(),
                           result["text_tokens"].get<size_t>());
  if (!result.contains("mean_kl")) return;
  const bool exact = result.contains("exact_perplexity");
  std::cout << fmt::format(
      "{} {:.4f}: {:+.3f} % (standard error {:.3f})\nKL {:.6f} (standard error {:.6f}), "
      "median {:.6f}, 99 % {:.6f}, most {:.6f}; the same likeliest token {:.2f} %\n",
      exact ? "float32 activations" : "not quantised cache",
      number(exact ? "exact_perplexity" : "plain_cache_perplexity"), number("perplexity_rise_percent"),
      number("perplexity_rise_error_percent"), number("mean_kl"), number("mean_kl_error"),
      number("median_kl"), number("kl_of_99_percent"), number("most_kl"), number("same_likeliest_percent"));
}

int run(const Program& program, const PerplexityOptions& options, const config::Settings& settings) {
  const store::Located located = locate_or_pull(program, options.model);
  const models::ModelFiles files = models::open_model(located.path);
  const Windows windows = cut(options, files, located.path);
  pool::LoadOptions load = load_options(settings, located);
  load.max_seqs = 1;
  load.context_length = options.window + 64;
  Scorer ours(files, load);
  std::unique_ptr<Scorer> truth;
  load.exact = load.exact || options.against_exact;
  load.kv_format = ops::KvFormat::kPlain;
  if (options.against_exact || options.against_plain_cache) truth = std::make_unique<Scorer>(files, load);
  Scores scores;
  for (const auto& tokens : windows.tokens) {
    const std::vector<float> logits = ours.logits(tokens);
    score(tokens, logits, truth ? truth->logits(tokens) : std::vector<float>(), scores);
  }
  Json result = {{"model", located.name},
                 {"format", files.format},
                 {"executor_detail", ours.detail()},
                 {"text_tokens", windows.text_tokens},
                 {"window", options.window},
                 {"windows", windows.tokens.size()},
                 {"scored_tokens", scores.nats.size()},
                 {"perplexity", std::exp(mean(scores.nats))},
                 {"perplexity_error", std::exp(mean(scores.nats)) * error_of(scores.nats)}};
  if (truth) add_comparison(options, scores, result);
  if (options.json)
    std::cout << result.dump() << std::endl;
  else
    print(result);
  return kDone;
}

}  // namespace

void add_perplexity(CLI::App& app, Program& program) {
  auto options = std::make_shared<PerplexityOptions>();
  CLI::App* command =
      app.add_subcommand("perplexity", "Measure how well a model predicts a text, window by window");
  command->add_option("model", options->model, "Alias, org/name, folder or .gguf file")->required();
  command->add_option("file", options->file, "The text")->required();
  command
      ->add_option("--window", options->window,
                   "Tokens of a window; those of its second half are scored, none sees another window")
      ->default_val(512)
      ->check(CLI::Range(4, 1 << 20));
  command->add_option("--windows", options->most_windows, "Most windows; 0: the whole text")
      ->check(CLI::Range(0, INT32_MAX));
  command->add_flag("--against-exact", options->against_exact,
                    "Run float32 activations beside it: KL divergence and rise of the perplexity");
  command
      ->add_flag("--against-plain-cache", options->against_plain_cache,
                 "Run a cache that is not quantised beside it, everything else alike")
      ->excludes("--against-exact");
  command->add_flag("--json", options->json, "Print JSON");
  auto settings = std::make_shared<SettingsFlags>(
      *command, std::vector<std::string>{"executor", "cpu_instructions", "exact", "kv_format", "threads",
                                         "prefill_chunk_tokens", "log_level"});
  set_examples(*command,
               "  penstock perplexity smollm2 book.txt\n  penstock perplexity ./model book.txt "
               "--against-exact --windows 8");
  command->callback(
      [options, settings, &program] { program.exit = run(program, *options, settings->load(program)); });
}

}  // namespace penstock::cli
