#include "serve/jobs.h"

#include <algorithm>
#include <random>

#include "base/error.h"
#include "base/hash.h"
#include "serve/prompt.h"

namespace penstock::serve {
namespace {

using base::Code;
using base::Error;

uint64_t random_seed() {
  static thread_local std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

void check_tool_choice(const chat::Conversation& conversation) {
  const bool has_tools = conversation.tools.is_array() && !conversation.tools.empty();
  const base::Json& choice = conversation.tool_choice;
  if (choice.is_null() || choice == "none" || choice == "auto") return;
  if (!has_tools) {
    throw Error(Code::kInvalidRequest, "[serve.check] expected tools beside this tool_choice; got none",
                "tool_choice");
  }
  throw Error(Code::kUnsupported,
              "[serve.check] expected tool_choice \"none\" or \"auto\"; forcing a call is not built yet",
              "tool_choice");
}

void check_conversation(const chat::Conversation& conversation) {
  check_tool_choice(conversation);
  if (conversation.messages.empty()) {
    throw Error(Code::kInvalidRequest, "[serve.check] expected at least one message; got none", "messages");
  }
  if (conversation.continue_final_message && conversation.messages.back().role != "assistant") {
    throw Error(Code::kInvalidRequest,
                "[serve.check] expected an assistant message at the end, to continue it; got one of " +
                    conversation.messages.back().role,
                "continue_final_message");
  }
}

/// The engine looks too, but does not know the field's name.
void check_prompt_ids(const chat::Completion& completion, int32_t vocab_size) {
  for (const auto& prompt : completion.prompts) {
    const auto* ids = std::get_if<std::vector<int32_t>>(&prompt);
    if (ids == nullptr) continue;
    for (const int32_t id : *ids) {
      if (id >= 0 && id < vocab_size) continue;
      throw Error(Code::kInvalidRequest,
                  "[serve.check] expected token ids below " + std::to_string(vocab_size) + "; got " +
                      std::to_string(id),
                  "prompt");
    }
  }
}

int32_t room_for(const std::vector<int32_t>& prompt, const pool::Model& model, const char* field) {
  const auto length = static_cast<int64_t>(prompt.size());
  if (length == 0) {
    throw Error(Code::kInvalidRequest, "[serve.prepare] expected a prompt of at least one token; got none",
                field);
  }
  if (length >= model.context_length) {
    throw Error(
        Code::kContextLength,
        "[serve.prepare] expected a prompt that leaves room for an answer in the model's context of " +
            std::to_string(model.context_length) + " tokens; got " + std::to_string(length) + " tokens",
        field);
  }
  return static_cast<int32_t>(model.context_length - length);
}

std::optional<speculate::Use> draft_use(chat::DraftSource source) {
  switch (source) {
    case chat::DraftSource::kServer:
      return std::nullopt;
    case chat::DraftSource::kAuto:
      return speculate::Use::kAuto;
    case chat::DraftSource::kNgram:
      return speculate::Use::kNgram;
    case chat::DraftSource::kSuffix:
      return speculate::Use::kSuffix;
    case chat::DraftSource::kModel:
      return speculate::Use::kModel;
  }
  return std::nullopt;
}

engine::Job job_template(const chat::Request& request, const pool::Model& model) {
  engine::Job job;
  job.params = sample_params(request.sampling, model.defaults);
  for (const auto& [token, value] : request.sampling.logit_bias) job.biases.push_back({token, value});
  if (!request.ignore_eos) job.stop_ids = model.stop_ids;
  job.top_logprobs = request.logprobs ? request.top_logprobs : -1;
  job.priority = static_cast<engine::Priority>(request.serving.urgency);
  job.use_cache = request.serving.use_cache;
  job.max_draft_tokens = static_cast<int32_t>(
      std::min<int64_t>(request.serving.max_draft_tokens.value_or(INT32_MAX), INT32_MAX));
  job.draft_use = draft_use(request.serving.draft_source);
  job.cache_salt = base::fnv1a(request.serving.cache_salt);
  return job;
}

}  // namespace

ops::SampleParams sample_params(const chat::Sampling& asked, const pool::GenerationDefaults& defaults) {
  const auto chosen = [&](const auto& own, auto member) {
    return own.value_or((defaults.*member).value_or(*(pool::kBuiltInDefaults.*member)));
  };
  using Defaults = pool::GenerationDefaults;
  ops::SampleParams params;
  params.temperature = chosen(asked.temperature, &Defaults::temperature);
  params.top_p = chosen(asked.top_p, &Defaults::top_p);
  params.top_k = chosen(asked.top_k, &Defaults::top_k);
  params.min_p = chosen(asked.min_p, &Defaults::min_p);
  params.repetition_penalty = chosen(asked.repetition_penalty, &Defaults::repetition_penalty);
  params.presence_penalty = asked.presence_penalty;
  params.frequency_penalty = asked.frequency_penalty;
  return params;
}

void check(const chat::Request& request, const pool::Model& model) {
  if (model.encoder != nullptr) {
    throw Error(Code::kInvalidRequest,
                "[serve.check] expected a model that generates text; got " + model.id + ", which " +
                    (model.scores_pairs ? "ranks documents" : "embeds texts"),
                "model");
  }
  for (const auto& [token, value] : request.sampling.logit_bias) {
    if (token < 0 || token >= model.codec->vocab_size()) {
      throw Error(Code::kInvalidRequest,
                  "[serve.check] expected token ids below " + std::to_string(model.codec->vocab_size()) +
                      "; got " + std::to_string(token),
                  "logit_bias");
    }
  }
  if (const auto* conversation = std::get_if<chat::Conversation>(&request.input)) {
    check_conversation(*conversation);
  } else {
    check_prompt_ids(std::get<chat::Completion>(request.input), model.codec->vocab_size());
  }
}

Prepared prepare(const chat::Request& request, const pool::Model& model, const text::ControlGuard& guard) {
  Prepared prepared;
  const engine::Job base = job_template(request, model);
  const char* field = std::holds_alternative<chat::Conversation>(request.input) ? "messages" : "prompt";
  for (std::vector<int32_t>& prompt : encode_prompts(request, *model.codec, guard)) {
    engine::Job job = base;
    const int32_t room = room_for(prompt, model, field);
    job.max_tokens = static_cast<int32_t>(std::min<int64_t>(request.max_tokens.value_or(room), room));
    prepared.max_tokens = std::max(prepared.max_tokens, job.max_tokens);
    prepared.prompt_tokens += static_cast<int32_t>(prompt.size());
    job.prompt = std::move(prompt);
    const uint64_t seed = request.sampling.seed ? *request.sampling.seed : random_seed();
    // Choice 0 takes the client's seed itself, so that it equals a request for one choice.
    std::vector<uint64_t> seeds = {seed};
    for (int32_t i = 1; i < request.n; ++i)
      seeds.push_back(base::splitmix64(seed + static_cast<uint64_t>(i)));
    prepared.prompts.push_back({std::move(job), std::move(seeds)});
  }
  return prepared;
}

}  // namespace penstock::serve
