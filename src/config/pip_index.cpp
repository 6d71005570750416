#include <fstream>
#include <sstream>

#include "config/environment.h"

namespace penstock::config {
namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// index-url of one configuration file: [download] wins over [global], as for `pip download`.
std::string index_of_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line, section, global, download;
  while (std::getline(file, line)) {
    const std::string text = trimmed(line);
    if (text.empty() || text.front() == '#' || text.front() == ';') continue;
    if (text.front() == '[') {
      section = text.substr(1, text.find(']') - 1);
      continue;
    }
    const auto equals = text.find_first_of("=:");
    if (equals == std::string::npos) continue;
    const std::string key = trimmed(text.substr(0, equals));
    if (key != "index-url" && key != "index_url") continue;
    const std::string value = trimmed(text.substr(equals + 1));
    if (section == "global") global = value;
    if (section == "download") download = value;
  }
  return download.empty() ? global : download;
}

/// The files pip reads, weakest first (pip's documentation, "Configuration").
std::vector<std::filesystem::path> pip_files(const Environment& environment) {
  const auto named = environment.get("PIP_CONFIG_FILE");
  if (named == "/dev/null") return {};
  std::vector<std::filesystem::path> files;
  std::stringstream folders(environment.get("XDG_CONFIG_DIRS").value_or("/etc/xdg"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    files.push_back(std::filesystem::path(folder) / "pip/pip.conf");
  }
  files.emplace_back("/etc/pip.conf");
  files.push_back(environment.home() / ".pip/pip.conf");
  files.push_back(environment.config_home() / "pip/pip.conf");
  if (const auto venv = environment.get("VIRTUAL_ENV"))
    files.push_back(std::filesystem::path(*venv) / "pip.conf");
  if (named) files.push_back(environment.expand_user(*named));
  return files;
}

}  // namespace

PackageIndex read_package_index(const Environment& environment) {
  PackageIndex index;
  for (const auto& file : pip_files(environment)) {
    if (std::string url = index_of_file(file); !url.empty()) index = {std::move(url), file.string()};
  }
  if (const auto url = environment.get("PIP_INDEX_URL")) index = {*url, "PIP_INDEX_URL"};
  while (index.url.ends_with('/')) index.url.pop_back();
  return index;
}

}  // namespace penstock::config
