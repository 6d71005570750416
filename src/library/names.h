// Names of models as requests write them: "name", "org/name", each with or without ":tag". Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace penstock::library {

/// Up to three parts between slashes and a tag, each of at most 80 letters, digits, '.', '_' and '-' that
/// does not begin with a dot: nothing that could be a path elsewhere.
bool is_model_name(std::string_view name);

/// The name without ":latest", which says nothing.
std::string_view without_latest(std::string_view name);

/// The name with a tag: "smollm2:latest".
std::string with_tag(std::string_view name);

/// Where the tag begins behind its colon; npos without one. A colon before a slash is a host's.
size_t tag_of(std::string_view name);

}  // namespace penstock::library
