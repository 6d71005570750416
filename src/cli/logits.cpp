// penstock logits: float32 logits of every position, for comparing with a reference.
#include <charconv>
#include <cstdio>
#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/models.h"
#include "cli/settings_flags.h"
#include "exec/logits_runner.h"
#include "models/model_files.h"

namespace penstock::cli {
namespace {

struct LogitsOptions {
  std::string model;
  std::vector<int32_t> tokens;
  int32_t split = 0;
};

/// "1,2,3".
std::vector<int32_t> parse_ids(const std::string& text) {
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    const auto [next, error] = std::from_chars(at, end, ids.emplace_back());
    if (error != std::errc() || (next != end && *next != ','))
      throw CLI::ValidationError("--tokens", "expected ids separated by commas; got " + text);
    if (next == end) return ids;
    at = next + 1;
  }
}

void check_tokens(const LogitsOptions& options, int32_t vocab) {
  if (static_cast<size_t>(options.split) > options.tokens.size()) {
    throw base::Error(base::Code::kInvalidRequest,
                      fmt::format("[cli.logits] expected --split of at most {} tokens; got {}",
                                  options.tokens.size(), options.split));
  }
  for (const int32_t token : options.tokens) {
    if (token < 0 || token >= vocab) {
      throw base::Error(base::Code::kInvalidRequest,
                        fmt::format("[cli.logits] expected token ids below {}; got {}", vocab, token));
    }
  }
}

/// Shortest text that reads back as the same float32; JSON has no infinities, so they become null.
void print_number(std::string& out, float value) {
  char buffer[32];
  if (!(value - value == 0)) {
    out += "null";
    return;
  }
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  out.append(buffer, end);
}

void print(const std::vector<float>& logits, size_t tokens, size_t vocab) {
  std::cout << fmt::format(R"({{"shape": [{}, {}], "logits": [)", tokens, vocab);
  for (size_t row = 0; row < tokens; ++row) {
    std::string line = row == 0 ? "[" : ", [";
    for (size_t i = 0; i < vocab; ++i) {
      if (i != 0) line += ", ";
      print_number(line, logits[row * vocab + i]);
    }
    std::cout << line << "]";
  }
  std::cout << "]}" << std::endl;
}

int run(const Program& program, const LogitsOptions& options, const config::Settings& settings) {
  const store::Located located = locate_or_pull(program, options.model);
  const models::ModelFiles files = models::open_model(located.path);
  check_tokens(options, files.plan.vocab);
  pool::LoadOptions load = load_options(settings, located);
  load.max_seqs = 1;
  load.context_length =
      std::min<int32_t>(files.plan.max_position, static_cast<int32_t>(options.tokens.size()) + 64);
  const auto n = static_cast<int32_t>(options.tokens.size());
  if (n > files.plan.max_position) {
    throw base::Error(
        base::Code::kInvalidRequest,
        fmt::format("[cli.logits] expected at most {} tokens; got {}", files.plan.max_position, n));
  }
  pool::LoadedExecutor loaded = pool::load_executor(files, load);
  const int32_t chunk = load.prefill_chunk_tokens;
  exec::LogitsRunner::Feed feed{options.tokens, {}};
  const int32_t prompt = options.split > 0 ? options.split : n;
  for (int32_t at = 0; at < prompt; at += chunk) feed.cuts.push_back(std::min(chunk, prompt - at));
  feed.cuts.push_back(1);
  feed.generated_from = prompt;
  exec::LogitsRunner runner(*loaded.executor, files.plan, loaded.limits);
  print(runner.run({feed})[0], options.tokens.size(), static_cast<size_t>(files.plan.vocab));
  return kDone;
}

}  // namespace

void add_logits(CLI::App& app, Program& program) {
  auto options = std::make_shared<LogitsOptions>();
  CLI::App* command = app.add_subcommand("logits", "Print the logits of every position as JSON");
  command->add_option("model", options->model, "Alias, org/name, folder or .gguf file")->required();
  command
      ->add_option_function<std::string>(
          "--tokens", [options](const std::string& text) { options->tokens = parse_ids(text); },
          "Token ids, separated by commas")
      ->required();
  command
      ->add_option("--split", options->split,
                   "Feed this many tokens as a prompt, the rest one by one; 0: all as a prompt")
      ->check(CLI::Range(0, INT32_MAX));
  auto settings = std::make_shared<SettingsFlags>(
      *command, std::vector<std::string>{"executor", "cpu_instructions", "exact", "kv_format", "threads",
                                         "prefill_chunk_tokens", "log_level"});
  set_examples(*command,
               "  penstock logits smollm2 --tokens 1,2,3 --exact\n  penstock logits ./model --tokens 5,6,7,8 "
               "--split 2");
  command->callback(
      [options, settings, &program] { program.exit = run(program, *options, settings->load(program)); });
}

}  // namespace penstock::cli
