// Takes one member out of a zip or tar archive, through libarchive. One owner thread; memory does not grow
// with size.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace penstock::store {

/// Feeds the member's bytes to `sink` in pieces. `member` is its whole path; in a source archive the first
/// folder
/// ("name-1.0/") may be left out. Throws Error: kNotFound without it, kCorrupt for a damaged archive; what
/// `sink` throws passes through.
void read_member(const std::filesystem::path& archive, std::string_view member,
                 const std::function<void(std::string_view)>& sink);

}  // namespace penstock::store
