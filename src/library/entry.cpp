#include "library/entry.h"

#include <array>
#include <fstream>
#include <iterator>

#include "base/digest.h"
#include "base/error.h"
#include "base/log.h"
#include "base/whole_file.h"
#include "library/names.h"

namespace penstock::library {
namespace {

namespace fs = std::filesystem;
using base::Json;

constexpr std::string_view kSuffix = ".json";

Json to_json(const Entry& entry) {
  Json files = Json::array();
  for (const EntryFile& file : entry.files) files.push_back({{"name", file.name}, {"sha256", file.sha256}});
  return {{"name", entry.name},
          {"base", entry.base},
          {"stored", entry.stored},
          {"files", std::move(files)},
          {"system", entry.preset.system},
          {"parameters", entry.preset.parameters},
          {"licences", entry.preset.licences},
          {"created_ms", entry.created_ms}};
}

Entry from_json(const Json& json) {
  Entry entry;
  entry.name = json.at("name").get<std::string>();
  entry.base = json.at("base").get<std::string>();
  entry.stored = json.at("stored").get<std::string>();
  for (const Json& file : json.at("files")) {
    entry.files.push_back({file.at("name").get<std::string>(), file.at("sha256").get<std::string>()});
  }
  entry.preset.system = json.at("system").get<std::string>();
  entry.preset.parameters = json.at("parameters");
  entry.preset.licences = json.at("licences").get<std::vector<std::string>>();
  entry.created_ms = json.at("created_ms").get<int64_t>();
  if (!is_model_name(entry.name))
    throw base::Error(base::Code::kCorrupt, "[library.entry] expected the name of a model; got another text");
  return entry;
}

fs::path path_of(const fs::path& folder, const std::string& name) {
  return folder / (file_key(name) + std::string(kSuffix));
}

}  // namespace

std::string file_key(const std::string& name) {
  constexpr size_t kDigits = 32;
  return base::sha256(name).substr(0, kDigits);
}

std::vector<Entry> read_entries(const fs::path& folder) {
  std::vector<Entry> entries;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    if (file.path().extension() != kSuffix) continue;
    try {
      std::ifstream in(file.path(), std::ios::binary);
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      entries.push_back(from_json(base::parse_json(text, file.path().string())));
    } catch (const std::exception& why) {
      base::log::warn("{} is left out: {}", file.path().string(), why.what());
    }
  }
  return entries;
}

void write_entry(const fs::path& folder, const Entry& entry) {
  const std::string text = to_json(entry).dump(-1, ' ', false, Json::error_handler_t::replace);
  std::error_code error;
  fs::create_directories(folder, error);
  base::write_whole(path_of(folder, entry.name), std::array{std::string_view(text)}, base::Durable::kYes);
}

void remove_entry(const fs::path& folder, const std::string& name) {
  std::error_code error;
  fs::remove(path_of(folder, name), error);
}

}  // namespace penstock::library
