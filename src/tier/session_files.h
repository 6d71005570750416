// What is known of the sessions of a server, as files: one small file each, whole or not there, safe from a
// crash once written. Any thread, one at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tier/block_file.h"

namespace penstock::tier {

struct SessionRecord {
  std::string id;
  std::string model;        // it was last used with
  Fingerprint fingerprint;  // of that model's blocks; empty: they are not on disk
  int32_t block_tokens = 0;
  uint64_t salt = 0;  // the blocks are shared under
  std::vector<int32_t> tokens;
  int64_t created_ms = 0, used_ms = 0;  // since 1970
  int64_t pinned_until_ms = 0;
  bool parked = false;  // its blocks were given to the disk alone

  bool operator==(const SessionRecord&) const = default;
};

class SessionFiles {
 public:
  /// Below `directory`. Throws Error(kIo).
  explicit SessionFiles(std::filesystem::path directory);

  /// Throws Error(kIo): what stood there before stands there still.
  void write(const SessionRecord& record) const;
  void erase(const std::string& id) const;
  /// Those that are whole; damaged ones are set aside and logged.
  std::vector<SessionRecord> read_all() const;

 private:
  std::filesystem::path path_of(const std::string& id) const;

  const std::filesystem::path folder_;
};

}  // namespace penstock::tier
