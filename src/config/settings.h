// Settings: the typed struct, the table of options made from settings.json, and loading with the precedence
// flag > environment > file > default. Read once at the start; plain data afterwards. Parses no command line.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/environment.h"
#include "config/settings_struct.h"

namespace penstock::config {

enum class Type { kString, kPath, kSecret, kInt, kBytes, kNumber, kBool, kChoice, kList };

/// One row of settings.json, for making command-line flags and help.
struct Option {
  std::string_view name;         // "max_num_seqs", also the key in the file
  std::string_view flag;         // "--max-num-seqs"
  std::string_view environment;  // "PENSTOCK_MAX_NUM_SEQS"
  Type type;
  std::string_view default_text;
  double min, max;      // whole unless the type is kNumber
  int64_t multiple_of;  // 0: any
  std::vector<std::string_view> choices;
  std::string_view scope;  // "process", "model" or "request"
  std::string_view help;
  std::variant<std::string Settings::*, int64_t Settings::*, std::optional<double> Settings::*,
               bool Settings::*, std::vector<std::string> Settings::*>
      member;
};

/// Every setting, in the order of the table.
std::span<const Option> options();

/// The option with this name ("max_num_seqs"), or null.
const Option* find_option(std::string_view name);

/// Where settings may come from.
struct Sources {
  std::map<std::string, std::string> flags;  // by option name; a bool is "true" or "false"
  Environment environment;
  std::optional<std::filesystem::path>
      config_file;  // --config: must exist; otherwise the user's file if there is one
};

struct Loaded {
  Settings settings;
  std::map<std::string, std::string>
      origin;  // by option name: "--port", "PENSTOCK_PORT" or the file; absent: default
  std::vector<std::string> warnings;  // names in the environment that look like settings and are none
};

/// Reads all sources. An unknown name in the file, a text that does not parse and a value out of range throw
/// Error(kInvalidRequest) naming the setting and where it came from; the value of a secret is never in the
/// message.
Loaded load(const Sources& sources);

/// Sets one option from its text ("4GiB" for bytes, "true", "a,b"). `origin` is for the error.
void set_from_text(Settings& settings, const Option& option, std::string_view text, std::string_view origin);

/// The value as text, for `doctor`; a secret is "(set)" or "(not set)".
std::string show(const Settings& settings, const Option& option);

}  // namespace penstock::config
