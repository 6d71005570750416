#include "api/openai/encode.h"

#include <cmath>

#include "base/error.h"

namespace penstock::api::openai {
namespace {

using base::Json;

/// Whether the bytes are whole, well-formed UTF-8 characters.
bool is_utf8(const std::string& bytes) {
  try {
    static_cast<void>(Json(bytes).dump());
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

double rounded_ms(double ms) {
  return std::round(ms * 1000) / 1000;
}

}  // namespace

Json Encoder::reasoning(const AnswerHead&, const chat::ReasoningDelta&) const {
  throw base::Error(base::Code::kInternal, "[openai.encode] expected text only; got reasoning");
}

Json Encoder::call_started(const AnswerHead&, const chat::ToolCallStarted&) const {
  throw base::Error(base::Code::kInternal, "[openai.encode] expected text only; got a tool call");
}

Json Encoder::call_delta(const AnswerHead&, const chat::ToolCallDelta&) const {
  throw base::Error(base::Code::kInternal, "[openai.encode] expected text only; got a tool call");
}

std::string token_text(const std::string& bytes) {
  if (is_utf8(bytes)) return bytes;
  constexpr char kHex[] = "0123456789abcdef";
  std::string text = "bytes:";
  for (const unsigned char byte : bytes) {
    text += "\\x";
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  return text;
}

Json envelope(const AnswerHead& head, const char* object) {
  return {{"id", head.id},
          {"object", object},
          {"created", head.created},
          {"model", head.model},
          {"choices", Json::array()}};
}

Json usage_json(const chat::Usage& usage) {
  Json json = {{"prompt_tokens", usage.prompt_tokens},
               {"completion_tokens", usage.completion_tokens},
               {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
  json["prompt_tokens_details"] = {{"cached_tokens", usage.cached_tokens}};
  json["completion_tokens_details"] = {{"reasoning_tokens", usage.reasoning_tokens}};
  return json;
}

Json receipt_json(const chat::Receipt& receipt) {
  Json json = {{"executor", receipt.executor},
               {"batch_width", receipt.batch_width},
               {"max_tokens", receipt.max_tokens},
               {"cached_tokens", receipt.cached_tokens},
               {"preemptions", receipt.preemptions},
               {"drafted", receipt.drafted},
               {"accepted", receipt.accepted},
               {"queue_ms", rounded_ms(receipt.queue_ms)},
               {"prefill_ms", rounded_ms(receipt.prefill_ms)},
               {"decode_ms", rounded_ms(receipt.decode_ms)}};
  if (receipt.masks > 0 || receipt.grammar_ms > 0) {
    json["masks"] = receipt.masks;
    json["mask_ms"] = rounded_ms(receipt.mask_ms);
    json["grammar_ms"] = rounded_ms(receipt.grammar_ms);
  }
  if (!receipt.trace_id.empty()) json["trace_id"] = receipt.trace_id;
  return json;
}

}  // namespace penstock::api::openai
