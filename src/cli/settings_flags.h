// Command-line flags made from the table of settings, so that a flag, its environment name and its help are
// written once.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "config/settings.h"

namespace penstock::cli {

class SettingsFlags {
 public:
  /// Adds a flag for each setting of the given scopes ("process", "model"), or of the given names.
  SettingsFlags(CLI::App& command, const std::vector<std::string>& scopes_or_names);

  /// Flags over environment over file over defaults; prints the warnings and sets the log level.
  config::Settings load(const Program& program) const;

 private:
  std::map<std::string, std::string> texts_;  // by option name
  std::map<std::string, CLI::Option*> flags_;
  std::string config_file_;
};

}  // namespace penstock::cli
