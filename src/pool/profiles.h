// Named sets of sampling values, for requests that ask for `model:profile`. Plain data, read once at the
// start.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/json.h"
#include "pool/generation_defaults.h"

namespace penstock::pool {

using Profiles = std::map<std::string, GenerationDefaults, std::less<>>;

/// {"creative": {"temperature": 1.2, "top_p": 0.9}, ...}; the fields are those of GenerationDefaults. Throws
/// Error(kInvalidRequest) for another field, for a value that a request could not have, and for a name that
/// is empty or has a colon or a slash.
Profiles parse_profiles(const base::Json& file);

/// The same of a file. Throws Error(kNotFound) where it is not there.
Profiles read_profiles(const std::filesystem::path& file);

}  // namespace penstock::pool
