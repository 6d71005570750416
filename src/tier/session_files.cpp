// A file is the SHA-256 of the rest in hex digits, a line end, and a JSON document.
#include "tier/session_files.h"

#include <array>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/whole_file.h"

namespace penstock::tier {
namespace {

namespace fs = std::filesystem;
using base::Code;
using base::Error;
using base::sha256;

constexpr size_t kDigits = 64;
constexpr size_t kMaxBytes = size_t{64} << 20;
constexpr std::string_view kSessionSuffix = ".session";

SessionRecord decode(const fs::path& path) {
  const std::string text = base::read_front(path, kMaxBytes);
  const std::string_view all = text;
  if (all.size() <= kDigits + 1 || sha256(all.substr(kDigits + 1)) != all.substr(0, kDigits)) {
    throw Error(Code::kCorrupt, "[tier.session_files] expected a file with the digest that it names");
  }
  try {
    const base::Json json = base::Json::parse(all.substr(kDigits + 1));
    SessionRecord record;
    json.at("id").get_to(record.id);
    json.at("model").get_to(record.model);
    json.at("fingerprint").get_to(record.fingerprint);
    json.at("block_tokens").get_to(record.block_tokens);
    json.at("salt").get_to(record.salt);
    json.at("tokens").get_to(record.tokens);
    json.at("created_ms").get_to(record.created_ms);
    json.at("used_ms").get_to(record.used_ms);
    json.at("pinned_until_ms").get_to(record.pinned_until_ms);
    json.at("parked").get_to(record.parked);
    return record;
  } catch (const base::Json::exception& why) {
    throw Error(Code::kCorrupt, std::string("[tier.session_files] expected a session; got ") + why.what());
  }
}

}  // namespace

SessionFiles::SessionFiles(fs::path directory) : folder_(std::move(directory) / "sessions") {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw Error(Code::kIo, "[tier.session_files] expected a folder at " + folder_.string());
}

/// Ids are what clients like; names of files are not.
fs::path SessionFiles::path_of(const std::string& id) const {
  return folder_ / (sha256(id).substr(0, 32) + std::string(kSessionSuffix));
}

void SessionFiles::write(const SessionRecord& record) const {
  const std::string json = base::Json{
      {"id", record.id},
      {"model", record.model},
      {"fingerprint", record.fingerprint},
      {"block_tokens", record.block_tokens},
      {"salt", record.salt},
      {"tokens", record.tokens},
      {"created_ms", record.created_ms},
      {"used_ms", record.used_ms},
      {"pinned_until_ms", record.pinned_until_ms},
      {"parked",
       record.parked}}.dump();
  const std::string digest = sha256(json);
  base::write_whole(path_of(record.id), std::array<std::string_view, 3>{digest, "\n", json},
                    base::Durable::kYes);
}

void SessionFiles::erase(const std::string& id) const {
  std::error_code error;
  fs::remove(path_of(id), error);
}

std::vector<SessionRecord> SessionFiles::read_all() const {
  std::vector<SessionRecord> records;
  std::vector<fs::path> damaged;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    const fs::path& path = entry.path();
    if (path.extension() == base::kPartialSuffix) {
      damaged.push_back(path);  // of a process that was killed
    } else if (path.extension() == kSessionSuffix) {
      try {
        records.push_back(decode(path));
      } catch (const Error& why) {
        base::log::warn("a session is damaged and set aside: {}: {}", path.string(), why.text());
        std::error_code error;
        fs::rename(path, fs::path(path) += ".damaged", error);
      }
    }
  }
  for (const fs::path& path : damaged) fs::remove(path);
  return records;
}

}  // namespace penstock::tier
