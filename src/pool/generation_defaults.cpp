#include "pool/generation_defaults.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

namespace penstock::pool {
namespace {

using base::Json;

constexpr const char* kGenerationConfig = "generation_config.json";

/// Calls `visit(name, member)` for each value.
template <class Visit>
void each_value(const Visit& visit) {
  visit("temperature", &GenerationDefaults::temperature);
  visit("top_p", &GenerationDefaults::top_p);
  visit("top_k", &GenerationDefaults::top_k);
  visit("min_p", &GenerationDefaults::min_p);
  visit("repetition_penalty", &GenerationDefaults::repetition_penalty);
}

void read_number(const Json& config, const char* key, std::optional<float>& out) {
  const auto it = config.find(key);
  if (it == config.end() || !it->is_number()) return;
  const auto value = it->get<float>();
  if (std::isfinite(value)) out = value;
}

void read_number(const Json& config, const char* key, std::optional<int32_t>& out) {
  const auto it = config.find(key);
  if (it == config.end() || !it->is_number()) return;
  const auto value = it->get<double>();
  if (value >= 0 && value <= std::numeric_limits<int32_t>::max()) out = static_cast<int32_t>(value);
}

/// The shortest text that reads back as this float: 0.2, not 0.20000000298023224.
Json shown(float value) {
  std::ostringstream text;
  text << value;
  return Json::parse(text.str());
}

Json shown(int32_t value) {
  return value;
}

}  // namespace

GenerationDefaults read_generation_config(const Json& config) {
  GenerationDefaults defaults;
  if (!config.is_object()) return defaults;
  each_value([&](const char* name, auto member) { read_number(config, name, defaults.*member); });
  if (config.contains("do_sample") && config["do_sample"] == false) defaults.temperature = 0;
  return defaults;
}

GenerationDefaults generation_config_of(const std::filesystem::path& model) {
  std::ifstream in(model / kGenerationConfig, std::ios::binary);
  if (!in) return {};
  std::stringstream text;
  text << in.rdbuf();
  if (text.str().empty()) return {};
  return read_generation_config(base::parse_python_json(text.str(), kGenerationConfig));
}

GenerationDefaults combine(std::span<const DefaultsSource> sources) {
  GenerationDefaults combined;
  each_value([&](const char*, auto member) {
    for (const DefaultsSource& source : sources) {
      if (!(combined.*member)) combined.*member = source.values.*member;
    }
  });
  return combined;
}

Json explain(std::span<const DefaultsSource> sources) {
  std::vector<DefaultsSource> all(sources.begin(), sources.end());
  all.push_back({"built in", kBuiltInDefaults});
  Json explained = Json::object();
  each_value([&](const char* name, auto member) {
    for (const DefaultsSource& source : all) {
      if (explained.contains(name) || !(source.values.*member)) continue;
      explained[name] = {{"value", shown(*(source.values.*member))}, {"from", source.name}};
    }
  });
  return explained;
}

}  // namespace penstock::pool
