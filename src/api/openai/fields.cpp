#include "api/openai/fields.h"

#include <array>

namespace penstock::api::openai {
namespace {

constexpr auto kHonoured = FieldSet::kHonoured;
constexpr auto kAccepted = FieldSet::kAccepted;
constexpr auto kRefused = FieldSet::kRefused;

constexpr std::array kChatFields = {
    Field{"model", kHonoured},
    Field{"messages", kHonoured},
    Field{"stream", kHonoured},
    Field{"stream_options", kHonoured},
    Field{"max_completion_tokens", kHonoured},
    Field{"max_tokens", kHonoured},
    Field{"n", kHonoured},
    Field{"stop", kHonoured},
    Field{"seed", kHonoured},
    Field{"temperature", kHonoured},
    Field{"top_p", kHonoured},
    Field{"top_k", kHonoured},
    Field{"min_p", kHonoured},
    Field{"repetition_penalty", kHonoured},
    Field{"presence_penalty", kHonoured},
    Field{"frequency_penalty", kHonoured},
    Field{"logit_bias", kHonoured},
    Field{"logprobs", kHonoured},
    Field{"top_logprobs", kHonoured},
    Field{"tools", kHonoured},
    Field{"tool_choice", kHonoured},
    Field{"response_format", kHonoured},
    Field{"modalities", kHonoured},
    Field{"reasoning_effort", kHonoured},
    Field{"chat_template_kwargs", kHonoured},
    Field{"add_generation_prompt", kHonoured},
    Field{"continue_final_message", kHonoured},
    Field{"ignore_eos", kHonoured},
    Field{"cache_prompt", kHonoured},
    Field{"cache_salt", kHonoured},
    Field{"session_id", kHonoured},
    Field{"max_draft_tokens", kHonoured},
    Field{"draft_source", kHonoured},
    Field{"priority", kHonoured},
    Field{"timeout_ms", kHonoured},
    Field{"store", kAccepted},
    Field{"metadata", kAccepted},
    Field{"user", kAccepted},
    Field{"safety_identifier", kAccepted},
    Field{"prompt_cache_key", kAccepted},
    Field{"prompt_cache_retention", kAccepted},
    Field{"service_tier", kAccepted},
    Field{"prediction", kAccepted},
    Field{"parallel_tool_calls", kAccepted},
    Field{"functions", kRefused, "tools"},
    Field{"function_call", kRefused, "tool_choice"},
    Field{"audio", kRefused},
    Field{"web_search_options", kRefused},
    Field{"structured_outputs", kRefused},
    Field{"guided_json", kRefused},
    Field{"guided_regex", kRefused},
    Field{"guided_choice", kRefused},
    Field{"guided_grammar", kRefused},
    Field{"grammar", kRefused},
    Field{"json_schema", kRefused},
    Field{"chat_template", kRefused},
    Field{"documents", kRefused},
    Field{"min_tokens", kRefused},
    Field{"stop_token_ids", kRefused, "stop"},
    Field{"bad_words", kRefused, "logit_bias"},
    Field{"truncate_prompt_tokens", kRefused},
    Field{"prompt_logprobs", kRefused},
};

constexpr std::array kCompletionFields = {
    Field{"model", kHonoured},
    Field{"prompt", kHonoured},
    Field{"stream", kHonoured},
    Field{"stream_options", kHonoured},
    Field{"max_tokens", kHonoured},
    Field{"n", kHonoured},
    Field{"stop", kHonoured},
    Field{"seed", kHonoured},
    Field{"temperature", kHonoured},
    Field{"top_p", kHonoured},
    Field{"top_k", kHonoured},
    Field{"min_p", kHonoured},
    Field{"repetition_penalty", kHonoured},
    Field{"presence_penalty", kHonoured},
    Field{"frequency_penalty", kHonoured},
    Field{"logit_bias", kHonoured},
    Field{"logprobs", kHonoured},
    Field{"ignore_eos", kHonoured},
    Field{"cache_prompt", kHonoured},
    Field{"cache_salt", kHonoured},
    Field{"session_id", kHonoured},
    Field{"max_draft_tokens", kHonoured},
    Field{"draft_source", kHonoured},
    Field{"priority", kHonoured},
    Field{"timeout_ms", kHonoured},
    Field{"echo", kHonoured},
    Field{"suffix", kHonoured},
    Field{"best_of", kHonoured},
    Field{"response_format", kHonoured},
    Field{"user", kAccepted},
    Field{"metadata", kAccepted},
    Field{"structured_outputs", kRefused},
    Field{"guided_json", kRefused},
    Field{"guided_regex", kRefused},
    Field{"guided_choice", kRefused},
    Field{"guided_grammar", kRefused},
    Field{"grammar", kRefused},
    Field{"json_schema", kRefused},
    Field{"min_tokens", kRefused},
    Field{"stop_token_ids", kRefused, "stop"},
    Field{"bad_words", kRefused, "logit_bias"},
    Field{"truncate_prompt_tokens", kRefused},
    Field{"prompt_logprobs", kRefused},
};

constexpr std::array kEmbeddingFields = {
    Field{"model", kHonoured},
    Field{"input", kHonoured},
    Field{"encoding_format", kHonoured},
    Field{"dimensions", kHonoured},
    Field{"truncate", kHonoured},
    Field{"timeout_ms", kHonoured},
    Field{"user", kAccepted},
    Field{"truncate_prompt_tokens", kRefused, "truncate"},
    Field{"input_type", kRefused},
    Field{"prompt_name", kRefused},
};

constexpr std::array kRerankFields = {
    Field{"model", kHonoured},
    Field{"query", kHonoured},
    Field{"documents", kHonoured},
    Field{"top_n", kHonoured},
    Field{"return_documents", kHonoured},
    Field{"truncate", kHonoured},
    Field{"timeout_ms", kHonoured},
    Field{"user", kAccepted},
    Field{"rank_fields", kRefused},
    Field{"max_chunks_per_doc", kRefused, "truncate"},
    Field{"max_tokens_per_doc", kRefused, "truncate"},
    Field{"truncate_prompt_tokens", kRefused, "truncate"},
};

}  // namespace

std::span<const Field> chat_fields() {
  return kChatFields;
}
std::span<const Field> completion_fields() {
  return kCompletionFields;
}
std::span<const Field> embedding_fields() {
  return kEmbeddingFields;
}
std::span<const Field> rerank_fields() {
  return kRerankFields;
}

}  // namespace penstock::api::openai
