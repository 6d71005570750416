#include "api/anthropic/decode.h"

#include <algorithm>
#include <array>

#include "api/anthropic/fields.h"
#include "base/error.h"

namespace penstock::api::anthropic {
namespace {

using base::Code;
using base::Error;
using base::Json;

constexpr size_t kMaxStops = 64;
constexpr int64_t kMinBudget = 1024;

std::vector<std::string> read_stops(const Reader& reader) {
  const Json* list = reader.find("stop_sequences");
  if (list == nullptr) return {};
  const bool is_good = list->is_array() && list->size() <= kMaxStops &&
                       std::all_of(list->begin(), list->end(), [](const Json& stop) {
                         return stop.is_string() && !stop.get_ref<const std::string&>().empty();
                       });
  if (!is_good) {
    reader.reject("stop_sequences",
                  "a list of up to " + std::to_string(kMaxStops) + " texts, none of them empty");
  }
  return list->get<std::vector<std::string>>();
}

void read_sampling(const Reader& reader, chat::Sampling& sampling) {
  if (const auto value = reader.number("temperature", 0, 1))
    sampling.temperature = static_cast<float>(*value);
  if (const auto value = reader.number("top_p", 0, 1)) sampling.top_p = static_cast<float>(*value);
  if (const auto value = reader.integer("top_k", 0, INT32_MAX)) sampling.top_k = static_cast<int32_t>(*value);
}

Json& variables_of(chat::Conversation& conversation) {
  if (conversation.template_kwargs.is_null()) conversation.template_kwargs = Json::object();
  return conversation.template_kwargs;
}

/// Absent, it is the model's own way.
void read_thinking(const Reader& reader, Decoded& out, chat::Conversation& conversation) {
  const Json* thinking = reader.find("thinking");
  if (thinking == nullptr) return;
  const Reader fields(*thinking, "thinking.");
  const std::string type = fields.string("type").value_or("");
  if (type != "enabled" && type != "disabled" && type != "adaptive")
    fields.reject("type", "enabled, disabled or adaptive");
  variables_of(conversation).emplace("enable_thinking", type != "disabled");
  if (type == "disabled") return;
  const auto display = fields.string("display");
  if (display && *display != "summarized" && *display != "omitted")
    fields.reject("display", "summarized or omitted");
  out.shows_thinking = display != "omitted";
  if (type != "enabled") return;
  conversation.reasoning_budget = fields.integer("budget_tokens", kMinBudget);
  if (!conversation.reasoning_budget)
    fields.reject("budget_tokens", "a whole number of at least " + std::to_string(kMinBudget));
}

void read_output_config(const Reader& reader, chat::Conversation& conversation) {
  const Json* config = reader.find("output_config");
  if (config == nullptr) return;
  const Reader fields(*config, "output_config.");
  if (fields.find("format") != nullptr) {
    throw Error(Code::kUnsupported,
                "[api.decode] expected no output_config.format: structured output is not built yet",
                "output_config.format");
  }
  const auto effort = fields.string("effort");
  if (!effort) return;
  constexpr std::array<std::string_view, 5> kEfforts = {"low", "medium", "high", "xhigh", "max"};
  if (std::find(kEfforts.begin(), kEfforts.end(), *effort) == kEfforts.end())
    fields.reject("effort", "low, medium, high, xhigh or max");
  // The highest that templates know is that of the OpenAI surface.
  variables_of(conversation).emplace("reasoning_effort", *effort == "max" ? "xhigh" : *effort);
}

/// What of the conversation would be cleared stays. Keeping all thoughts is what happens anyway.
void note_context_management(const Reader& reader, Decoded& out) {
  const Json* config = reader.find("context_management");
  if (config == nullptr) return;
  const Reader fields(*config, "context_management.");
  const Json* edits = fields.find("edits");
  if (edits == nullptr) return;
  if (!edits->is_array()) fields.reject("edits", "a list");
  const bool is_kept = std::all_of(edits->begin(), edits->end(), [](const Json& edit) {
    return edit.is_object() && edit.value("type", Json()) == "clear_thinking_20251015" &&
           edit.value("keep", Json()) == "all";
  });
  if (!is_kept) out.ignored.push_back("context_management");
}

void read_prompt(const Reader& reader, const Signer& signer, Decoded& out) {
  out.request.model = reader.string("model").value_or("");
  chat::Conversation conversation;
  read_messages(reader, signer, conversation);
  read_tools(reader, conversation);
  read_thinking(reader, out, conversation);
  read_output_config(reader, conversation);
  note_context_management(reader, out);
  out.request.input = std::move(conversation);
}

}  // namespace

Decoded decode_message(const Json& body, const Signer& signer) {
  const Reader reader(body);
  Decoded out;
  out.ignored = unknown_fields(body, message_fields());
  out.request.max_tokens = reader.integer("max_tokens", 1);
  if (!out.request.max_tokens) reader.reject("max_tokens", "a whole number of at least 1");
  out.request.stop = read_stops(reader);
  out.stream = reader.boolean("stream").value_or(false);
  read_sampling(reader, out.request.sampling);
  read_prompt(reader, signer, out);
  return out;
}

Decoded decode_count(const Json& body, const Signer& signer) {
  Decoded out;
  out.ignored = unknown_fields(body, count_fields());
  read_prompt(Reader(body), signer, out);
  return out;
}

}  // namespace penstock::api::anthropic
