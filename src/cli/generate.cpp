// penstock generate: one prompt in, one answer out.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <random>

#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/models.h"
#include "cli/settings_flags.h"
#include "cli/token_stream.h"
#include "serve/jobs.h"
#include "text/detokenizer.h"

namespace penstock::cli {
namespace {

using base::Json;
using Clock = std::chrono::steady_clock;

struct GenerateOptions {
  std::string model, prompt, system;
  bool raw = false, json = false, ignore_eos = false;
  int32_t max_tokens = 512;
  chat::Sampling sampling;
};

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string read_prompt(const GenerateOptions& options) {
  if (!options.prompt.empty()) return options.prompt;
  if (isatty(STDIN_FILENO) != 0) {
    throw base::Error(base::Code::kInvalidRequest,
                      "[cli.generate] expected a prompt as argument or on standard input; got none");
  }
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

std::vector<int32_t> encode_prompt(const pool::Model& model, const GenerateOptions& options,
                                   const std::string& prompt) {
  if (options.raw) return model.codec->encode(prompt, true);
  if (!model.codec->has_template()) {
    std::fprintf(stderr, "%s has no chat template: continuing the text as it is\n", model.id.c_str());
    return model.codec->encode(prompt, true);
  }
  Json messages = Json::array();
  if (!options.system.empty()) messages.push_back({{"role", "system"}, {"content", options.system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  const std::string text = model.codec->render({{"messages", messages}, {"add_generation_prompt", true}});
  return model.codec->encode(text, false);
}

engine::Job make_job(const pool::Model& model, const GenerateOptions& options, std::vector<int32_t> prompt) {
  engine::Job job;
  job.prompt = std::move(prompt);
  job.max_tokens = options.max_tokens;
  if (!options.ignore_eos) job.stop_ids = model.stop_ids;
  job.params = serve::sample_params(options.sampling, model.defaults);
  job.params.seed = options.sampling.seed ? *options.sampling.seed
                                          : (uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  return job;
}

const char* finish_reason(engine::Finish finish) {
  return finish == engine::Finish::kLength ? "length" : "stop";
}

struct Answer {
  std::string text;
  std::vector<int32_t> tokens;
  engine::Receipt receipt;
  double ttft_ms = 0;
};

Answer generate(const pool::Model& model, engine::Job job, bool print) {
  const auto start = Clock::now();
  auto stream = std::make_shared<TokenStream>();
  text::Detokenizer detokenizer(*model.codec);
  const uint64_t id = model.generator->submit(std::move(job), stream);
  Answer answer;
  const auto add = [&](std::string_view text) {
    answer.text += text;
    if (print) std::cout << text << std::flush;
  };
  bool cancelled = false;
  while (true) {
    for (const engine::Token& token : stream->take()) {
      if (answer.tokens.empty()) answer.ttft_ms = ms_since(start);
      answer.tokens.push_back(token.id);
      add(detokenizer.push(token.id));
    }
    if (interrupted() && !cancelled) {
      model.generator->cancel(id);
      cancelled = true;
    }
    if (const auto receipt = stream->finished()) {
      answer.receipt = *receipt;
      break;
    }
  }
  add(detokenizer.finish());
  if (print && (answer.text.empty() || answer.text.back() != '\n')) std::cout << std::endl;
  return answer;
}

Json to_json(const Answer& answer, const std::vector<int32_t>& prompt, const pool::Model& model,
             double load_ms) {
  const engine::Receipt& receipt = answer.receipt;
  const double generated = static_cast<double>(answer.tokens.size());
  const auto rate = [](double count, double ms) { return ms > 0 ? count * 1000 / ms : 0; };
  return {{"text", answer.text},
          {"finish_reason", finish_reason(receipt.finish)},
          {"prompt_tokens", prompt},
          {"tokens", answer.tokens},
          {"executor", model.executor},
          {"timings",
           {{"load_ms", load_ms},
            {"ttft_ms", answer.ttft_ms},
            {"prefill_tokens_per_s", rate(static_cast<double>(prompt.size()), receipt.prefill_ms)},
            {"decode_tokens_per_s", rate(generated - 1, receipt.decode_ms)}}}};
}

int run(const Program& program, const GenerateOptions& options, config::Settings settings) {
  const std::string prompt = read_prompt(options);
  const auto start = Clock::now();
  const store::Located located = locate_or_pull(program, options.model);
  settings.max_num_seqs = 1;
  const auto model = pool::load_model(located.path, load_options_with_draft(program, settings, located));
  const double load_ms = ms_since(start);
  const std::vector<int32_t> ids = encode_prompt(*model, options, prompt);
  catch_interrupts();
  const Answer answer = generate(*model, make_job(*model, options, ids), !options.json);
  model->generator->stop();
  if (answer.receipt.finish == engine::Finish::kFailed) {
    throw base::Error(base::Code::kInternal,
                      "[cli.generate] expected an answer; got " + answer.receipt.error);
  }
  if (options.json) {
    std::cout << to_json(answer, ids, *model, load_ms).dump(-1, ' ', false, Json::error_handler_t::replace)
              << std::endl;
  }
  return answer.receipt.finish == engine::Finish::kCancelled ? kInterrupted : kDone;
}

/// The option library takes the largest number for one that is larger.
std::string whole_number_of_64_bits(const std::string& text) {
  const char* const end = text.data() + text.size();
  const auto reads = [&](auto value) {
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    return error == std::errc{} && stop == end;
  };
  return reads(uint64_t{0}) || reads(int64_t{0}) ? "" : "expected a whole number of 64 bits; got " + text;
}

}  // namespace

void add_generate(CLI::App& app, Program& program) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = app.add_subcommand("generate", "Answer one prompt and exit");
  command->add_option("model", options->model, "Alias, org/name, folder or .gguf file")->required();
  command->add_option("prompt", options->prompt, "The prompt; without it standard input is read");
  command->add_option("--system", options->system, "System message");
  command->add_flag("--raw", options->raw, "Continue the prompt as text, without the chat template");
  command->add_flag("--json", options->json, "Print one JSON object: text, token ids, timings");
  command->add_option("--max-tokens", options->max_tokens, "Most tokens of the answer")
      ->default_val(512)
      ->check(CLI::Range(1, INT32_MAX));
  add_sampling_flags(*command, options->sampling, "the model's, else 1");
  command->add_option("--seed", options->sampling.seed, "The same seed draws the same tokens")
      ->check(whole_number_of_64_bits);
  command->add_flag("--ignore-eos", options->ignore_eos, "Go on past the model's end of turn");
  auto settings = std::make_shared<SettingsFlags>(
      *command, std::vector<std::string>{"executor", "cpu_instructions", "exact", "kv_format", "threads",
                                         "context_length", "kv_memory_bytes", "memory_guard", "memory_limit",
                                         "log_level"});
  set_examples(*command,
               "  penstock generate smollm2 \"Name three rivers\" --temperature 0\n"
               "  git diff | penstock generate smollm2 --system \"Write a commit message for this diff\"\n"
               "  penstock generate gemma3-270m \"Once upon a time\" --raw --max-tokens 64 --json");
  command->callback([options, settings, &program] {
    config::Settings loaded = settings->load(program);
    program.exit = run(program, *options, std::move(loaded));
  });
}

}  // namespace penstock::cli
