#include "api/responses/fields.h"

#include <array>

namespace penstock::api::responses {
namespace {

constexpr auto kHonoured = FieldSet::kHonoured;
constexpr auto kAccepted = FieldSet::kAccepted;
constexpr auto kRefused = FieldSet::kRefused;

constexpr std::array kFields = {
    Field{"model", kHonoured},
    Field{"input", kHonoured},
    Field{"instructions", kHonoured},
    Field{"previous_response_id", kHonoured},
    Field{"store", kHonoured},
    Field{"background", kHonoured},
    Field{"stream", kHonoured},
    Field{"stream_options", kHonoured},
    Field{"tools", kHonoured},
    Field{"tool_choice", kHonoured},
    Field{"parallel_tool_calls", kHonoured},
    Field{"reasoning", kHonoured},
    Field{"text", kHonoured},
    Field{"max_output_tokens", kHonoured},
    Field{"temperature", kHonoured},
    Field{"top_p", kHonoured},
    Field{"top_logprobs", kHonoured},
    Field{"include", kHonoured},
    Field{"truncation", kHonoured},
    Field{"metadata", kHonoured},
    Field{"top_k", kHonoured},
    Field{"min_p", kHonoured},
    Field{"repetition_penalty", kHonoured},
    Field{"presence_penalty", kHonoured},
    Field{"frequency_penalty", kHonoured},
    Field{"logit_bias", kHonoured},
    Field{"seed", kHonoured},
    Field{"stop", kHonoured},
    Field{"ignore_eos", kHonoured},
    Field{"cache_prompt", kHonoured},
    Field{"cache_salt", kHonoured},
    Field{"session_id", kHonoured},
    Field{"max_draft_tokens", kHonoured},
    Field{"draft_source", kHonoured},
    Field{"priority", kHonoured},
    Field{"timeout_ms", kHonoured},
    Field{"user", kAccepted},
    Field{"safety_identifier", kAccepted},
    Field{"prompt_cache_key", kAccepted},
    Field{"prompt_cache_options", kAccepted},
    Field{"prompt_cache_retention", kAccepted},
    Field{"service_tier", kAccepted},
    Field{"max_tool_calls", kAccepted},
    Field{"background_options", kAccepted},
    Field{"access_programs", kAccepted},
    Field{"image", kAccepted},
    Field{"conversation", kRefused, "previous_response_id"},
    Field{"prompt", kRefused, "instructions"},
    Field{"context_management", kRefused},
    Field{"moderation", kRefused},
    Field{"messages", kRefused, "input"},
    Field{"n", kRefused},
    Field{"max_tokens", kRefused, "max_output_tokens"},
    Field{"max_completion_tokens", kRefused, "max_output_tokens"},
    Field{"response_format", kRefused, "text"},
    Field{"reasoning_effort", kRefused, "reasoning"},
    Field{"logprobs", kRefused, "include"},
    Field{"functions", kRefused, "tools"},
    Field{"function_call", kRefused, "tool_choice"},
    Field{"modalities", kRefused},
    Field{"chat_template", kRefused},
    Field{"chat_template_kwargs", kRefused, "reasoning"},
    Field{"min_tokens", kRefused},
    Field{"stop_token_ids", kRefused, "stop"},
    Field{"bad_words", kRefused, "logit_bias"},
};

}  // namespace

std::span<const Field> create_fields() {
  return kFields;
}

}  // namespace penstock::api::responses
