#include "config/environment.h"

#include <algorithm>
#include <cctype>
#include <fstream>

#include <pwd.h>
#include <unistd.h>

extern "C" char** environ;

namespace penstock::config {
namespace {

std::string without_trailing_slashes(std::string text) {
  while (text.ends_with('/')) text.pop_back();
  return text;
}

std::string trimmed(std::string text) {
  const auto space = [](unsigned char c) { return std::isspace(c) != 0; };
  text.erase(std::find_if_not(text.rbegin(), text.rend(), space).base(), text.end());
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), space));
  return text;
}

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return trimmed(line);
}

void read_token(const Environment& environment, const std::filesystem::path& hub_home, HubEnvironment& hub) {
  for (const char* name : {"HF_TOKEN", "HF_HUB_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (const auto value = environment.get(name); value && !trimmed(*value).empty()) {
      hub.token = trimmed(*value);
      hub.token_origin = name;
      return;
    }
  }
  const auto named = environment.get("HF_TOKEN_PATH");
  const std::filesystem::path file = named ? environment.expand_user(*named) : hub_home / "token";
  hub.token = first_line(file);
  if (!hub.token.empty()) hub.token_origin = file.string();
}

}  // namespace

Environment Environment::process() {
  std::map<std::string, std::string> values;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) values.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return Environment(std::move(values));
}

std::optional<std::string> Environment::get(std::string_view name) const {
  const auto found = values_.find(std::string(name));
  if (found == values_.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

bool Environment::is_on(std::string_view name) const {
  std::string value = get(name).value_or("");
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::tolower(c); });
  return value == "1" || value == "true" || value == "yes" || value == "on";
}

std::filesystem::path Environment::home() const {
  if (const auto home = get("HOME")) return *home;
  const passwd* user = getpwuid(getuid());
  return user != nullptr ? user->pw_dir : "/";
}

std::filesystem::path Environment::expand_user(std::string_view path) const {
  if (path == "~") return home();
  if (path.starts_with("~/")) return home() / path.substr(2);
  return path;
}

std::filesystem::path Environment::config_home() const {
  const auto value = get("XDG_CONFIG_HOME");
  return value ? expand_user(*value) : home() / ".config";
}

std::filesystem::path Environment::cache_home() const {
  const auto value = get("XDG_CACHE_HOME");
  return value ? expand_user(*value) : home() / ".cache";
}

std::filesystem::path Environment::state_home() const {
  const auto value = get("XDG_STATE_HOME");
  return value ? expand_user(*value) : home() / ".local" / "state";
}

HubEnvironment read_hub(const Environment& environment) {
  HubEnvironment hub;
  const auto hub_home_name = environment.get("HF_HOME");
  const std::filesystem::path hub_home =
      hub_home_name ? environment.expand_user(*hub_home_name) : environment.cache_home() / "huggingface";
  hub.cache = hub_home / "hub";
  for (const char* name : {"HUGGINGFACE_HUB_CACHE", "HF_HUB_CACHE"}) {
    if (const auto value = environment.get(name)) hub.cache = environment.expand_user(*value);
  }
  for (const char* name : {"HF_MIRROR", "HF_ENDPOINT"}) {
    if (const auto value = environment.get(name)) hub.endpoint = without_trailing_slashes(*value);
  }
  hub.offline = environment.is_on("HF_HUB_OFFLINE");
  read_token(environment, hub_home, hub);
  return hub;
}

std::optional<std::filesystem::path> read_ca_bundle(const Environment& environment) {
  for (const char* name : {"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT"}) {
    if (const auto value = environment.get(name)) return environment.expand_user(*value);
  }
  return std::nullopt;
}

}  // namespace penstock::config
