#include "cli/settings_flags.h"

#include <algorithm>

#include "base/log.h"

namespace penstock::cli {
namespace {

std::string choices_of(const config::Option& option) {
  std::string list;
  for (const std::string_view choice : option.choices)
    list += (list.empty() ? " (" : ", ") + std::string(choice);
  return list.empty() ? list : list + ")";
}

}  // namespace

SettingsFlags::SettingsFlags(CLI::App& command, const std::vector<std::string>& scopes_or_names) {
  const auto wanted = [&](std::string_view word) {
    return std::find(scopes_or_names.begin(), scopes_or_names.end(), word) != scopes_or_names.end();
  };
  for (const config::Option& option : config::options()) {
    if (!wanted(option.scope) && !wanted(option.name)) continue;
    const std::string name(option.name), flag(option.flag);
    const std::string help =
        std::string(option.help) + choices_of(option) + " [" + std::string(option.environment) + "]";
    std::string& text = texts_[name];
    if (option.type == config::Type::kBool) {
      flags_[name] = command.add_flag(
          flag, [&text](int64_t count) { text = count > 0 ? "true" : "false"; }, help);
    } else {
      flags_[name] = command.add_option(flag, text, help);
      if (!option.default_text.empty()) flags_[name]->default_str(std::string(option.default_text));
    }
  }
  command.add_option("--config", config_file_, "Settings file instead of ~/.config/penstock/config.json");
}

config::Settings SettingsFlags::load(const Program& program) const {
  config::Sources sources;
  for (const auto& [name, flag] : flags_) {
    if (flag->count() > 0) sources.flags[name] = texts_.at(name);
  }
  sources.environment = program.environment;
  if (!config_file_.empty()) sources.config_file = config_file_;
  const config::Loaded loaded = config::load(sources);
  base::configure_log(loaded.settings.log_level, loaded.settings.log_format);
  for (const auto& warning : loaded.warnings) base::log::warn("{}", warning);
  return loaded.settings;
}

}  // namespace penstock::cli
