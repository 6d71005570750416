// Reads config.json strictly: remembers which keys were read, and refuses values left unread that would
// change the maths. Loader thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"

namespace penstock::models {

class ConfigReader {
 public:
  /// `config` must outlive the reader.
  explicit ConfigReader(const base::Json& config) : config_(&config) {}

  /// Null when absent or null in the file. Marks the key read.
  const base::Json* find(const std::string& key);

  // Each throws Error(kInvalidRequest) naming the key when it is of another type, out of range, or absent
  // without a default.
  int64_t positive(const std::string& key);
  int64_t positive_or(const std::string& key, int64_t otherwise);
  double number(const std::string& key);
  double number_or(const std::string& key, double otherwise);
  bool flag_or(const std::string& key, bool otherwise);
  std::string text(const std::string& key);
  std::string text_or(const std::string& key, const std::string& otherwise);

  /// Throws Error(kUnsupported) for an unread key that is known to change the maths and is not neutral.
  /// Returns the unread keys that are known to nobody.
  std::vector<std::string> finish() const;

 private:
  const base::Json* config_;
  std::set<std::string> read_;
};

}  // namespace penstock::models
