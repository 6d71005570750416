#include "api/anthropic/fields.h"

#include <array>

namespace penstock::api::anthropic {
namespace {

constexpr auto kHonoured = FieldSet::kHonoured;
constexpr auto kAccepted = FieldSet::kAccepted;
constexpr auto kRefused = FieldSet::kRefused;

constexpr std::array kMessageFields = {
    Field{"model", kHonoured},
    Field{"messages", kHonoured},
    Field{"system", kHonoured},
    Field{"max_tokens", kHonoured},
    Field{"stream", kHonoured},
    Field{"stop_sequences", kHonoured},
    Field{"temperature", kHonoured},
    Field{"top_p", kHonoured},
    Field{"top_k", kHonoured},
    Field{"tools", kHonoured},
    Field{"tool_choice", kHonoured},
    Field{"thinking", kHonoured},
    Field{"output_config", kHonoured},
    Field{"cache_control", kAccepted},
    Field{"metadata", kAccepted},
    Field{"service_tier", kAccepted},
    Field{"speed", kAccepted},
    Field{"inference_geo", kAccepted},
    Field{"context_management", kAccepted},
    Field{"diagnostics", kAccepted},
    Field{"fallbacks", kAccepted},
    Field{"fallback_credit_token", kAccepted},
    Field{"billing_policy", kAccepted},
    Field{"user_profile_id", kAccepted},
    Field{"workspace_id", kAccepted},
    Field{"container", kRefused},
    Field{"mcp_servers", kRefused, "tools"},
    Field{"output_format", kRefused},
    Field{"compaction", kRefused},
    Field{"thread", kRefused, "messages"},
};

constexpr std::array kCountFields = {
    Field{"model", kHonoured},
    Field{"messages", kHonoured},
    Field{"system", kHonoured},
    Field{"tools", kHonoured},
    Field{"tool_choice", kHonoured},
    Field{"thinking", kHonoured},
    Field{"output_config", kHonoured},
    Field{"max_tokens", kAccepted},
    Field{"stream", kAccepted},
    Field{"stop_sequences", kAccepted},
    Field{"temperature", kAccepted},
    Field{"top_p", kAccepted},
    Field{"top_k", kAccepted},
    Field{"cache_control", kAccepted},
    Field{"metadata", kAccepted},
    Field{"service_tier", kAccepted},
    Field{"speed", kAccepted},
    Field{"context_management", kAccepted},
    Field{"billing_policy", kAccepted},
    Field{"user_profile_id", kAccepted},
    Field{"workspace_id", kAccepted},
    Field{"container", kRefused},
    Field{"mcp_servers", kRefused, "tools"},
    Field{"output_format", kRefused},
    Field{"compaction", kRefused},
    Field{"thread", kRefused, "messages"},
};

}  // namespace

std::span<const Field> message_fields() {
  return kMessageFields;
}
std::span<const Field> count_fields() {
  return kCountFields;
}

}  // namespace penstock::api::anthropic
