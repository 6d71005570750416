#include "api/openai/decode.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "base/error.h"

namespace penstock::api::openai {
namespace {

using base::Code;
using base::Json;

constexpr size_t kMaxStops = 16;
constexpr int64_t kMaxChoices = 8;

std::optional<uint64_t> read_seed(const Reader& reader) {
  const Json* value = reader.find("seed");
  if (value == nullptr) return std::nullopt;
  if (value->is_number_unsigned()) return value->get<uint64_t>();
  if (!value->is_number_integer()) reader.reject("seed", "a whole number of 64 bits");
  return static_cast<uint64_t>(value->get<int64_t>());
}

std::vector<std::string> read_stop(const Reader& reader) {
  const Json* value = reader.find("stop");
  if (value == nullptr) return {};
  const Json list = value->is_array() ? *value : Json::array({*value});
  const bool is_good =
      list.size() <= kMaxStops && std::all_of(list.begin(), list.end(), [](const Json& stop) {
        return stop.is_string() && !stop.get_ref<const std::string&>().empty();
      });
  if (!is_good) reader.reject("stop", "a text or a list of up to 16, none of them empty");
  return list.get<std::vector<std::string>>();
}

std::vector<std::pair<int32_t, float>> read_logit_bias(const Reader& reader) {
  const Json* value = reader.find("logit_bias");
  if (value == nullptr) return {};
  if (!value->is_object()) reader.reject("logit_bias", "an object of token ids and numbers");
  std::vector<std::pair<int32_t, float>> biases;
  const Reader biases_reader(*value, "logit_bias.");
  for (const auto& [key, number] : value->items()) {
    int32_t token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc{} || end != key.data() + key.size() || token < 0) {
      reader.reject("logit_bias", "an object whose names are token ids");
    }
    if (number.is_null()) continue;
    // Not asked of the reader by its name: a look-up for each of many names takes a time of their square.
    const double bias = number.is_number() ? number.get<double>() : std::nan("");
    if (!(bias >= -100 && bias <= 100)) biases_reader.reject(key, "a number from -100.0 to 100.0");
    biases.emplace_back(token, static_cast<float>(bias));
  }
  return biases;
}

void read_sampling(const Reader& reader, chat::Sampling& sampling) {
  const auto number = [&](const char* name, double min, double max, auto& out) {
    if (const auto value = reader.number(name, min, max)) out = static_cast<float>(*value);
  };
  number("temperature", 0, 2, sampling.temperature);
  number("top_p", 0, 1, sampling.top_p);
  number("min_p", 0, 1, sampling.min_p);
  number("presence_penalty", -2, 2, sampling.presence_penalty);
  number("frequency_penalty", -2, 2, sampling.frequency_penalty);
  number("repetition_penalty", 0.01, 10, sampling.repetition_penalty);
  // -1 is the word of some clients for "off", which is 0 here.
  if (const auto top_k = reader.integer("top_k", -1, INT32_MAX)) {
    sampling.top_k = static_cast<int32_t>(std::max<int64_t>(*top_k, 0));
  }
  sampling.seed = read_seed(reader);
  sampling.logit_bias = read_logit_bias(reader);
}

void read_stream(const Reader& reader, Decoded& out) {
  out.stream = reader.boolean("stream").value_or(false);
  const Json* options = reader.find("stream_options");
  if (options == nullptr) return;
  if (!out.stream) reader.reject("stream_options", "absent unless stream is true");
  const Reader fields(*options, "stream_options.");
  out.include_usage = fields.boolean("include_usage").value_or(false);
  fields.boolean("include_obfuscation");
  for (const auto& [name, value] : options->items())
    if (name != "include_usage" && name != "include_obfuscation") out.ignored.push_back(fields.path(name));
}

/// A word, or a number as vLLM has it: the lower, the sooner.
chat::Urgency read_priority(const Reader& reader) {
  const Json* value = reader.find("priority");
  if (value == nullptr) return chat::Urgency::kRealtime;
  if (value->is_number_integer()) {
    const auto number = value->is_number_unsigned() && value->get<uint64_t>() > 2 ? 2 : value->get<int64_t>();
    return static_cast<chat::Urgency>(std::clamp<int64_t>(number, 0, 2));
  }
  if (*value == "realtime") return chat::Urgency::kRealtime;
  if (*value == "batch") return chat::Urgency::kBatch;
  if (*value == "background") return chat::Urgency::kBackground;
  reader.reject("priority", "realtime, batch, background or a whole number");
}

constexpr size_t kMaxSessionBytes = 256;

chat::DraftSource read_draft_source(const Reader& reader) {
  const auto source = reader.string("draft_source");
  if (!source) return chat::DraftSource::kServer;
  if (*source == "auto") return chat::DraftSource::kAuto;
  if (*source == "ngram") return chat::DraftSource::kNgram;
  if (*source == "suffix") return chat::DraftSource::kSuffix;
  if (*source == "model") return chat::DraftSource::kModel;
  reader.reject("draft_source", "auto, ngram, suffix or model");
}

void read_serving(const Reader& reader, chat::Serving& serving) {
  serving.urgency = read_priority(reader);
  serving.use_cache = reader.boolean("cache_prompt").value_or(true);
  serving.cache_salt = reader.string("cache_salt").value_or("");
  serving.max_draft_tokens = reader.integer("max_draft_tokens", 0);
  serving.draft_source = read_draft_source(reader);
  serving.timeout_ms = reader.integer("timeout_ms", 1);
  serving.session = reader.string("session_id").value_or("");
  if (serving.session.size() > kMaxSessionBytes) {
    reader.reject("session_id", "at most " + std::to_string(kMaxSessionBytes) + " bytes");
  }
}

void read_response_format(const Reader& reader) {
  const Json* format = reader.find("response_format");
  if (format == nullptr) return;
  const auto type = Reader(*format, "response_format.").string("type");
  if (type == "text") return;
  if (type == "json_object" || type == "json_schema") {
    throw base::Error(Code::kUnsupported,
                      "[api.decode] expected response_format.type \"text\"; " + *type + " is not built yet",
                      "response_format");
  }
  reader.reject("response_format", "an object whose type is text, json_object or json_schema");
}

}  // namespace

bool is_token_ids(const Json& value) {
  return value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), [](const Json& id) {
           return id.is_number_unsigned() && id.get<uint64_t>() <= INT32_MAX;
         });
}

void read_shared(const Reader& reader, Decoded& out) {
  chat::Request& request = out.request;
  request.model = reader.string("model").value_or("");
  read_sampling(reader, request.sampling);
  request.stop = read_stop(reader);
  request.n = static_cast<int32_t>(reader.integer("n", 1, kMaxChoices).value_or(1));
  request.max_tokens = reader.integer("max_tokens", 1);
  request.ignore_eos = reader.boolean("ignore_eos").value_or(false);
  read_serving(reader, request.serving);
  read_stream(reader, out);
  read_response_format(reader);
}

}  // namespace penstock::api::openai
