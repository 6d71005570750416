// The environment of the process as a plain map, so that tests bring their own, and typed reading of what
// other programs of this field put there: the Hugging Face hub's names and pip's. Nothing else reads the
// environment.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::config {

class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string> values) : values_(std::move(values)) {}

  /// A copy of the environment of this process.
  static Environment process();

  /// The value, or nothing when it is not set or empty.
  std::optional<std::string> get(std::string_view name) const;

  /// True for 1, true, yes, on in any case, as the hub's own library reads them.
  bool is_on(std::string_view name) const;

  /// $HOME, or the folder of the current user where it is not set; "~" and "~/x" expand to it.
  std::filesystem::path home() const;
  std::filesystem::path expand_user(std::string_view path) const;

  /// $XDG_CONFIG_HOME or ~/.config; $XDG_CACHE_HOME or ~/.cache; $XDG_STATE_HOME or ~/.local/state.
  std::filesystem::path config_home() const;
  std::filesystem::path cache_home() const;
  std::filesystem::path state_home() const;

  const std::map<std::string, std::string>& values() const { return values_; }

 private:
  std::map<std::string, std::string> values_;
};

/// What the hub's variables say (HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_HUB_OFFLINE, HF_ENDPOINT and their older
/// names).
struct HubEnvironment {
  std::filesystem::path cache;                      // the folder with models--org--name
  std::string token;                                // empty without one; never to be logged
  std::string token_origin;                         // "HF_TOKEN", or the path of the token file
  bool offline = false;                             // no network at all
  std::string endpoint = "https://huggingface.co";  // without a slash at the end
};
HubEnvironment read_hub(const Environment& environment);

/// Where pip would look for packages: $PIP_INDEX_URL, then pip's configuration files, then
/// https://pypi.org/simple.
struct PackageIndex {
  std::string url =
      "https://pypi.org/simple";   // without a slash at the end; may hold credentials: never to be logged
  std::string origin = "default";  // "PIP_INDEX_URL" or the file
};
PackageIndex read_package_index(const Environment& environment);

/// The file of trusted certificates that the user's tools are told to use, or nothing for the system's own.
std::optional<std::filesystem::path> read_ca_bundle(const Environment& environment);

}  // namespace penstock::config
