#include "config/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"

namespace penstock::config {
namespace {

[[noreturn]] void refuse(const Option& option, std::string_view expected, std::string_view text,
                         std::string_view origin) {
  throw base::Error(
      base::Code::kInvalidRequest,
      fmt::format("[config.load] expected {} to be {} (from {}); got {}", option.name, expected, origin,
                  option.type == Type::kSecret ? "something else" : fmt::format("'{}'", text)),
      std::string(option.name));
}

/// Factor of a byte suffix: "" and "B" are 1, K or KiB 1024, KB 1000, and so on; 0 for no suffix at all.
int64_t byte_factor(std::string_view suffix) {
  static constexpr std::string_view kLetters = "KMGT";
  if (suffix.empty() || suffix == "B") return 1;
  const auto power = kLetters.find(suffix.front());
  const std::string_view rest = suffix.substr(1);
  if (power == std::string_view::npos || (rest != "" && rest != "B" && rest != "iB")) return 0;
  int64_t factor = 1;
  for (size_t i = 0; i <= power; ++i) factor *= rest == "B" ? 1000 : 1024;
  return factor;
}

int64_t parse_integer(const Option& option, std::string_view text, std::string_view origin) {
  const auto min = static_cast<int64_t>(option.min), max = static_cast<int64_t>(option.max);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view suffix = text.substr(end - text.data());
  const int64_t factor = option.type == Type::kBytes ? byte_factor(suffix) : (suffix.empty() ? 1 : 0);
  const std::string range = fmt::format("{} to {}", min, max);
  if (error != std::errc{} || factor == 0 || value < min / factor || value > max / factor ||
      value * factor < min) {
    refuse(option,
           option.type == Type::kBytes ? range + " bytes (a suffix as in 512MiB or 4G may follow)" : range,
           text, origin);
  }
  if ((value * factor) % option.multiple_of != 0) {
    refuse(option, fmt::format("a multiple of {}", option.multiple_of), text, origin);
  }
  return value * factor;
}

/// Nothing for an empty text: not set.
std::optional<double> parse_number(const Option& option, std::string_view text, std::string_view origin) {
  if (text.empty()) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool in_range = value >= option.min && value <= option.max;  // false for NaN
  if (error != std::errc{} || end != text.data() + text.size() || !in_range ||
      (option.multiple_of != 0 && std::fmod(value, static_cast<double>(option.multiple_of)) != 0)) {
    refuse(option,
           fmt::format("{} number from {:.10g} to {:.10g}, or empty",
                       option.multiple_of != 0 ? "a whole" : "a", option.min, option.max),
           text, origin);
  }
  return value;
}

bool parse_bool(const Option& option, std::string_view text, std::string_view origin) {
  if (text == "true" || text == "1" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "0" || text == "no" || text == "off") return false;
  refuse(option, "true or false", text, origin);
}

std::vector<std::string> parse_list(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    std::string_view item = text.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    if (!item.empty()) items.emplace_back(item);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return items;
}

/// A value of the configuration file in the form that set_from_text reads.
std::string text_of_json(const Option& option, const base::Json& value, std::string_view origin) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean() && option.type == Type::kBool) return value.get<bool>() ? "true" : "false";
  if (value.is_number_integer() && (option.type == Type::kInt || option.type == Type::kBytes))
    return value.dump();
  if (value.is_number() && option.type == Type::kNumber) return value.dump();
  if (value.is_array() && option.type == Type::kList) {
    std::string text;
    for (const auto& item : value) {
      if (!item.is_string()) refuse(option, "a list of texts", value.dump(), origin);
      text += (text.empty() ? "" : ",") + item.get<std::string>();
    }
    return text;
  }
  refuse(option, "a value of its own type", value.dump(), origin);
}

std::string read_file(const std::filesystem::path& path, std::string_view what) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw base::Error(
        base::Code::kInvalidRequest,
        fmt::format("[config.load] expected {} {} to be readable; it is not", what, path.string()));
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

void apply_file(const std::filesystem::path& path, Loaded& loaded) {
  const base::Json json = base::parse_json(read_file(path, "the configuration file"), path.string());
  if (!json.is_object()) {
    throw base::Error(
        base::Code::kInvalidRequest,
        fmt::format("[config.load] expected one JSON object in {}; got something else", path.string()));
  }
  for (const auto& [name, value] : json.items()) {
    const Option* option = find_option(name);
    if (option == nullptr) {
      throw base::Error(
          base::Code::kInvalidRequest,
          fmt::format("[config.load] expected names of settings in {}; got '{}'", path.string(), name), name);
    }
    set_from_text(loaded.settings, *option, text_of_json(*option, value, path.string()), path.string());
    loaded.origin[std::string(option->name)] = path.string();
  }
}

/// Names of this family that the set-up script and the tests read, and that are no settings.
bool is_of_tools(std::string_view name) {
  static constexpr std::string_view kNames[] = {"PENSTOCK_BUILD_DIR", "PENSTOCK_JOBS", "PENSTOCK_TEST_MODEL"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

void apply_environment(const Environment& environment, Loaded& loaded) {
  for (const auto& [name, value] : environment.values()) {
    if (!name.starts_with("PENSTOCK_") || is_of_tools(name)) continue;
    const auto all = options();
    const auto option =
        std::find_if(all.begin(), all.end(), [&](const Option& o) { return o.environment == name; });
    if (option == all.end()) {
      loaded.warnings.push_back(name + " in the environment is not a setting");
      continue;
    }
    set_from_text(loaded.settings, *option, value, name);
    loaded.origin[std::string(option->name)] = name;
  }
}

void apply_flags(const std::map<std::string, std::string>& flags, Loaded& loaded) {
  for (const auto& [name, value] : flags) {
    const Option* option = find_option(name);
    if (option == nullptr) {
      throw base::Error(base::Code::kInternal,
                        "[config.load] expected flags made from the table; got " + name);
    }
    set_from_text(loaded.settings, *option, value, option->flag);
    loaded.origin[std::string(option->name)] = option->flag;
  }
}

/// How strong a source is: 0 default, 1 file, 2 environment, 3 flag.
int strength(const Loaded& loaded, const std::string& name) {
  const auto found = loaded.origin.find(name);
  if (found == loaded.origin.end()) return 0;
  return found->second.starts_with("--") ? 3 : found->second.starts_with("PENSTOCK_") ? 2 : 1;
}

/// A key file counts as the key itself, at the file setting's own strength; both at one strength is a
/// contradiction.
void read_key_file(const Environment& environment, Loaded& loaded) {
  Settings& settings = loaded.settings;
  if (settings.api_key_file.empty()) return;
  const int key = settings.api_key.empty() ? 0 : strength(loaded, "api_key");
  const int file = strength(loaded, "api_key_file");
  if (key > file) return;
  if (key == file) {
    throw base::Error(base::Code::kInvalidRequest,
                      "[config.load] expected one of api_key and api_key_file; got both", "api_key_file");
  }
  const std::string text = read_file(environment.expand_user(settings.api_key_file), "the API key file");
  settings.api_key = text.substr(0, text.find_first_of("\r\n"));
  if (settings.api_key.empty()) {
    throw base::Error(
        base::Code::kInvalidRequest,
        "[config.load] expected a key in the first line of " + settings.api_key_file + "; it is empty",
        "api_key_file");
  }
  loaded.origin["api_key"] = settings.api_key_file;
}

}  // namespace

const Option* find_option(std::string_view name) {
  const auto all = options();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Option& o) { return o.name == name; });
  return found == all.end() ? nullptr : &*found;
}

void set_from_text(Settings& settings, const Option& option, std::string_view text, std::string_view origin) {
  switch (option.type) {
    case Type::kInt:
    case Type::kBytes:
      settings.*std::get<int64_t Settings::*>(option.member) = parse_integer(option, text, origin);
      return;
    case Type::kNumber:
      settings.*std::get<std::optional<double> Settings::*>(option.member) =
          parse_number(option, text, origin);
      return;
    case Type::kBool:
      settings.*std::get<bool Settings::*>(option.member) = parse_bool(option, text, origin);
      return;
    case Type::kList:
      settings.*std::get<std::vector<std::string> Settings::*>(option.member) = parse_list(text);
      return;
    case Type::kChoice:
      if (std::find(option.choices.begin(), option.choices.end(), text) == option.choices.end()) {
        refuse(option, fmt::format("one of {}", fmt::join(option.choices, ", ")), text, origin);
      }
      break;
    case Type::kString:
    case Type::kPath:
    case Type::kSecret:
      break;
  }
  settings.*std::get<std::string Settings::*>(option.member) = std::string(text);
}

std::string show(const Settings& settings, const Option& option) {
  switch (option.type) {
    case Type::kInt:
    case Type::kBytes:
      return std::to_string(settings.*std::get<int64_t Settings::*>(option.member));
    case Type::kNumber: {
      const auto& value = settings.*std::get<std::optional<double> Settings::*>(option.member);
      return value ? fmt::format("{}", *value) : "";
    }
    case Type::kBool:
      return settings.*std::get<bool Settings::*>(option.member) ? "true" : "false";
    case Type::kList:
      return fmt::format(
          "{}", fmt::join(settings.*std::get<std::vector<std::string> Settings::*>(option.member), ","));
    case Type::kSecret:
      return (settings.*std::get<std::string Settings::*>(option.member)).empty() ? "(not set)" : "(set)";
    default:
      return settings.*std::get<std::string Settings::*>(option.member);
  }
}

Loaded load(const Sources& sources) {
  Loaded loaded;
  const auto user_file = sources.environment.config_home() / "penstock/config.json";
  if (sources.config_file) {
    apply_file(*sources.config_file, loaded);
  } else if (std::filesystem::exists(user_file)) {
    apply_file(user_file, loaded);
  }
  apply_environment(sources.environment, loaded);
  apply_flags(sources.flags, loaded);
  read_key_file(sources.environment, loaded);
  if (loaded.settings.state_dir.empty())
    loaded.settings.state_dir = sources.environment.state_home() / "penstock";
  return loaded;
}

}  // namespace penstock::config
