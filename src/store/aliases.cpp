#include "store/aliases.h"

#include <algorithm>
#include <string_view>

namespace penstock::store {

extern const std::string_view kAliasesJson;

namespace {

Source read_source(const base::Json& json) {
  Source source;
  if (json.contains("repo")) {
    source.repo = json.at("repo");
    source.file = json.at("file");
    return source;
  }
  for (const auto& part : json.at("parts")) {
    source.parts.push_back({part.at("package"), part.at("version"), part.at("sha256"), part.at("member"),
                            part.at("size_bytes")});
  }
  return source;
}

const base::Json& document() {
  static const base::Json json = base::parse_json(kAliasesJson, "aliases.json");
  return json;
}

}  // namespace

Alias read_alias(const base::Json& json) {
  Alias alias{json.at("name"),
              json.at("title"),
              json.at("file"),
              json.at("sha256"),
              json.at("size_bytes"),
              json.at("licence"),
              json.at("chat"),
              {},
              nullptr,
              {}};
  if (json.contains("beside")) alias.beside = json.at("beside");
  if (json.contains("sampling")) alias.sampling = json.at("sampling");
  for (const auto& source : json.at("sources")) alias.sources.push_back(read_source(source));
  return alias;
}

std::span<const Alias> aliases() {
  static const std::vector<Alias> all = [] {
    std::vector<Alias> list;
    for (const auto& entry : document().at("aliases")) list.push_back(read_alias(entry));
    return list;
  }();
  return all;
}

const Alias* find_alias(std::string_view name) {
  const auto all = aliases();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Alias& alias) { return alias.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::span<const Candidate> default_candidates() {
  static const std::vector<Candidate> all = [] {
    std::vector<Candidate> list;
    for (const auto& entry : document().at("default_candidates")) {
      list.push_back({entry.at("name"), entry.at("min_memory_bytes")});
    }
    return list;
  }();
  return all;
}

}  // namespace penstock::store
