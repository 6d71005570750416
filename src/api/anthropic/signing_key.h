// The key of the thinking blocks' signatures, kept in a file so that blocks of before a restart stay good.
// Called once, at the start.
#pragma once

#include <filesystem>
#include <string>

namespace penstock::api::anthropic {

/// The key in `file`, which is made with a new one, for its owner only, where it is not there. Throws
/// Error(kIo) when it cannot be read or made, Error(kCorrupt) for a file that holds something else.
std::string kept_signing_key(const std::filesystem::path& file);

}  // namespace penstock::api::anthropic
