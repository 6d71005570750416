#include "pool/profiles.h"

#include <cmath>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace penstock::pool {
namespace {

using base::Code;
using base::Error;
using base::Json;

[[noreturn]] void reject(const std::string& what, const std::string& expected, const Json& got) {
  throw Error(Code::kInvalidRequest, "[pool.profiles] expected " + what + " to be " + expected + "; got " +
                                         got.dump().substr(0, 60));
}

struct Range {
  double min, max;
  const char* words;
};

double number(const std::string& path, const Json& value, const Range& range) {
  if (!value.is_number() || value.get<double>() < range.min || value.get<double>() > range.max)
    reject(path, range.words, value);
  return value.get<double>();
}

/// The ranges are those of a request's fields.
void read_field(GenerationDefaults& profile, const std::string& path, const std::string& field,
                const Json& value) {
  const auto real = [&](const Range& range) { return static_cast<float>(number(path, value, range)); };
  if (field == "temperature") {
    profile.temperature = real({0, 2, "a number from 0 to 2"});
  } else if (field == "top_p") {
    profile.top_p = real({0, 1, "a number from 0 to 1"});
  } else if (field == "min_p") {
    profile.min_p = real({0, 1, "a number from 0 to 1"});
  } else if (field == "repetition_penalty") {
    profile.repetition_penalty = real({0.01, 10, "a number from 0.01 to 10"});
  } else if (field == "top_k") {
    if (!value.is_number_integer()) reject(path, "a whole number, 0 is off", value);
    profile.top_k = static_cast<int32_t>(number(path, value, {0, INT32_MAX, "a whole number, 0 is off"}));
  } else {
    throw Error(
        Code::kInvalidRequest,
        "[pool.profiles] expected temperature, top_p, top_k, min_p or repetition_penalty; got " + path);
  }
}

}  // namespace

Profiles parse_profiles(const Json& file) {
  if (!file.is_object()) reject("the profiles", "an object of names and objects", file);
  Profiles profiles;
  for (const auto& [name, fields] : file.items()) {
    if (name.empty() || name.find_first_of(":/") != std::string::npos)
      reject("the name of a profile", "a text without colons and slashes", Json(name));
    if (!fields.is_object()) reject(name, "an object of sampling fields", fields);
    GenerationDefaults profile;
    for (const auto& [field, value] : fields.items()) read_field(profile, name + "." + field, field, value);
    profiles.emplace(name, profile);
  }
  return profiles;
}

Profiles read_profiles(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(Code::kNotFound, "[pool.profiles] expected a file " + file.string() + "; got none");
  std::stringstream text;
  text << in.rdbuf();
  return parse_profiles(base::parse_json(text.str(), file.string()));
}

}  // namespace penstock::pool
