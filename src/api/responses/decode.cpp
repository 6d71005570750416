#include "api/responses/decode.h"

#include <algorithm>
#include <array>

#include "api/effort.h"
#include "api/metadata.h"
#include "api/openai/decode.h"
#include "api/responses/fields.h"
#include "api/responses/items.h"
#include "base/error.h"

namespace penstock::api::responses {
namespace {

using base::Code;
using base::Error;
using base::Json;

Json or_null(const auto& value) {
  return value ? Json(*value) : Json();
}

/// What is listed in `include` beside these is of tools that are not run here.
void read_include(const Reader& reader, Create& out) {
  chat::Request& request = out.request;
  constexpr std::array<std::string_view, 8> kKnown = {
      "message.output_text.logprobs",   "reasoning.encrypted_content",
      "web_search_call.action.sources", "web_search_call.results",
      "code_interpreter_call.outputs",  "computer_call_output.output.image_url",
      "file_search_call.results",       "message.input_image.image_url"};
  if (const Json* include = reader.find("include")) {
    if (!include->is_array()) reader.reject("include", "a list");
    for (const Json& value : *include) {
      const std::string one = value.is_string() ? value.get<std::string>() : "";
      if (std::find(kKnown.begin(), kKnown.end(), one) == kKnown.end())
        reader.reject("include", "a list of names that this API has");
      request.logprobs = request.logprobs || one == kKnown[0];
      out.carries_reasoning = out.carries_reasoning || one == kKnown[1];
    }
  }
  const auto top = reader.integer("top_logprobs", 0, 20).value_or(0);
  if (top > 0 && !request.logprobs)
    reader.reject("top_logprobs", "0 unless include has message.output_text.logprobs");
  request.top_logprobs = static_cast<int32_t>(top);
}

Json read_reasoning(const Reader& reader, Create& out) {
  Json echo = {{"effort", nullptr}, {"summary", nullptr}};
  const Json* reasoning = reader.find("reasoning");
  if (reasoning == nullptr) return echo;
  const Reader fields(*reasoning, "reasoning.");
  echo["effort"] = or_null(read_effort(fields, "effort", out.conversation));
  for (const auto& [name, value] : reasoning->items()) {
    // The reasoning is there in full; nothing here would write a summary of it.
    if (name != "effort" && !value.is_null()) out.ignored.push_back(fields.path(name));
  }
  return echo;
}

Json read_text(const Reader& reader, Create& out) {
  Json echo = {{"format", {{"type", "text"}}}};
  const Json* text = reader.find("text");
  if (text == nullptr) return echo;
  const Reader fields(*text, "text.");
  if (fields.find("verbosity") != nullptr && fields.string("verbosity") != "medium")
    out.ignored.push_back("text.verbosity");
  const Json* format = fields.find("format");
  if (format == nullptr) return echo;
  const Reader format_fields(*format, "text.format.");
  const auto type = format_fields.string("type");
  if (type == "text") return echo;
  if (type == "json_object" || type == "json_schema") {
    throw Error(Code::kUnsupported,
                "[responses.decode] expected text.format.type \"text\"; " + *type + " is not built yet",
                "text.format");
  }
  format_fields.reject("type", "text, json_object or json_schema");
}

void read_modes(const Reader& reader, Create& out) {
  out.store = reader.boolean("store").value_or(true);
  out.background = reader.boolean("background").value_or(false);
  if (out.background && !out.store) reader.reject("background", "false where store is false");
  out.stream = reader.boolean("stream").value_or(false);
  if (const Json* options = reader.find("stream_options")) {
    if (!out.stream) reader.reject("stream_options", "absent unless stream is true");
    Reader(*options, "stream_options.").boolean("include_obfuscation");
  }
  const auto truncation = reader.string("truncation").value_or("disabled");
  if (truncation == "auto") {
    throw Error(Code::kUnsupported,
                "[responses.decode] expected truncation disabled: nothing of a conversation is left out here",
                "truncation");
  }
  if (truncation != "disabled") reader.reject("truncation", "disabled");
}

void read_conversation(const Reader& reader, const Json& instructions, Create& out) {
  out.input = read_input(reader);
  out.previous_id = reader.string("previous_response_id").value_or("");
  if (out.input.empty() && out.previous_id.empty())
    reader.reject("input", "a text or a list of at least one item");
  if (instructions.is_string()) {
    chat::Message message;
    message.role = "system";
    message.content = {chat::Part{instructions.get<std::string>()}};
    out.conversation.messages.push_back(std::move(message));
  }
}

/// Text fields that are only said again.
void echo_texts(const Reader& reader, Json& settings) {
  for (const char* name : {"user", "safety_identifier", "prompt_cache_key"})
    if (const auto value = reader.string(name)) settings[name] = *value;
}

}  // namespace

Create decode_create(const Json& body) {
  const Reader reader(body);
  Create out;
  out.ignored = unknown_fields(body, create_fields());
  openai::read_generation(reader, out.request);
  out.request.max_tokens = reader.integer("max_output_tokens", 1);
  read_include(reader, out);
  read_modes(reader, out);
  const Json instructions = or_null(reader.string("instructions"));
  read_conversation(reader, instructions, out);
  Tools tools = read_tools(reader);
  out.conversation.tools = std::move(tools.shown);
  out.conversation.tool_choice = std::move(tools.shown_choice);
  out.conversation.parallel_tool_calls = reader.boolean("parallel_tool_calls").value_or(true);
  out.names = std::move(tools.names);
  out.ignored.insert(out.ignored.end(), tools.dropped.begin(), tools.dropped.end());
  Json& settings = out.settings;
  settings["background"] = out.background;
  settings["instructions"] = instructions;
  settings["max_output_tokens"] = or_null(out.request.max_tokens);
  settings["max_tool_calls"] = or_null(reader.integer("max_tool_calls", 1));
  settings["metadata"] = read_metadata(reader);
  settings["parallel_tool_calls"] = out.conversation.parallel_tool_calls;
  settings["previous_response_id"] = out.previous_id.empty() ? Json() : Json(out.previous_id);
  settings["reasoning"] = read_reasoning(reader, out);
  settings["service_tier"] = "default";
  settings["store"] = out.store;
  settings["temperature"] = or_null(reader.number("temperature", 0, 2));
  settings["text"] = read_text(reader, out);
  settings["tool_choice"] = std::move(tools.choice);
  settings["tools"] = std::move(tools.tools);
  settings["top_logprobs"] = out.request.top_logprobs;
  settings["top_p"] = or_null(reader.number("top_p", 0, 1));
  settings["truncation"] = "disabled";
  echo_texts(reader, settings);
  return out;
}

}  // namespace penstock::api::responses
