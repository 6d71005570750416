#include <algorithm>

#include "api/ollama/decode.h"
#include "api/ollama/fields.h"
#include "base/error.h"

namespace penstock::api::ollama {
namespace {

using base::Code;
using base::Error;
using base::Json;

constexpr size_t kMaxStops = 16;

[[noreturn]] void refuse(const Reader& options, const std::string& name, const std::string& expected) {
  throw Error(Code::kUnsupported,
              "[api.decode] expected " + options.path(name) + " to be " + expected + "; got " +
                  shown(*options.find(name)) + ", which is not built",
              options.path(name));
}

std::vector<std::string> read_stop(const Reader& options) {
  const Json* value = options.find("stop");
  if (value == nullptr) return {};
  const Json list = value->is_array() ? *value : Json::array({*value});
  const bool is_good =
      list.size() <= kMaxStops && std::all_of(list.begin(), list.end(), [](const Json& stop) {
        return stop.is_string() && !stop.get_ref<const std::string&>().empty();
      });
  if (!is_good) options.reject("stop", "a text or a list of up to 16, none of them empty");
  return list.get<std::vector<std::string>>();
}

/// Whole numbers that clients write as 40.0 are whole.
std::optional<int64_t> whole(const Reader& options, std::string_view name) {
  const Json* value = options.find(name);
  if (value != nullptr && value->is_number_float()) {
    const double number = value->get<double>();
    constexpr double kMost = 9e15;
    if (number == static_cast<double>(static_cast<int64_t>(std::clamp(number, -kMost, kMost))))
      return static_cast<int64_t>(number);
  }
  return options.integer(name, INT64_MIN);
}

/// Draws that are off where the option has this value, and are not built otherwise.
void check_off(const Reader& options, const std::string& name, double off) {
  const auto value = options.number(name, -1e9, 1e9);
  if (value && *value != off) refuse(options, name, Json(off).dump() + ", which is off,");
}

void read_penalties(const Reader& options, chat::Sampling& sampling) {
  const auto number = [&](const char* name, double min, double max, auto& out) {
    if (const auto value = options.number(name, min, max)) out = static_cast<float>(*value);
  };
  number("repeat_penalty", 0.01, 10, sampling.repetition_penalty);
  number("presence_penalty", -2, 2, sampling.presence_penalty);
  number("frequency_penalty", -2, 2, sampling.frequency_penalty);
  const auto last_n = whole(options, "repeat_last_n");
  if (!last_n || *last_n == -1) return;
  if (*last_n != 0) refuse(options, "repeat_last_n", "-1 (the whole context) or 0 (no penalty)");
  sampling.repetition_penalty = 1.0f;
}

void read_draws(const Reader& options, chat::Request& request) {
  constexpr double kMostTemperature = 100;
  chat::Sampling& sampling = request.sampling;
  const auto number = [&](const char* name, double min, double max, auto& out) {
    if (const auto value = options.number(name, min, max)) out = static_cast<float>(*value);
  };
  number("temperature", 0, kMostTemperature, sampling.temperature);
  number("top_p", 0, 1, sampling.top_p);
  number("min_p", 0, 1, sampling.min_p);
  if (const auto top_k = whole(options, "top_k"))
    sampling.top_k = static_cast<int32_t>(std::clamp<int64_t>(*top_k, 0, INT32_MAX));
  // Below zero: random, as if it were not there.
  if (const auto seed = whole(options, "seed"); seed && *seed >= 0)
    sampling.seed = static_cast<uint64_t>(*seed);
  if (const auto tokens = whole(options, "num_predict"); tokens && *tokens > 0) request.max_tokens = *tokens;
  check_off(options, "typical_p", 1);
  check_off(options, "tfs_z", 1);
  check_off(options, "mirostat", 0);
}

}  // namespace

void read_options(const Reader& reader, const Json& preset, Decoded& out) {
  Json merged = preset.is_object() ? preset : Json::object();
  if (const Json* own = reader.find("options")) {
    if (!own->is_object()) reader.reject("options", "an object");
    merged.update(*own);
  }
  const Reader options(merged, reader.path("options."));
  for (const std::string& name : unknown_fields(merged, option_fields()))
    out.ignored.push_back(options.path(name));
  read_draws(options, out.request);
  read_penalties(options, out.request.sampling);
  out.request.stop = read_stop(options);
}

void check_options(const Reader& reader, std::string_view name) {
  const Json* parameters = reader.find(name);
  if (parameters == nullptr) return;
  if (!parameters->is_object()) reader.reject(name, "an object");
  const Reader options(*parameters, reader.path(std::string(name) + "."));
  Decoded scratch;
  if (const auto unknown = unknown_fields(*parameters, option_fields()); !unknown.empty())
    reader.reject(name, "an object of options that are known here, unlike " + unknown.front());
  read_draws(options, scratch.request);
  read_penalties(options, scratch.request.sampling);
  read_stop(options);
}

}  // namespace penstock::api::ollama
