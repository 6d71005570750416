// Files that are whole or not there: written under another name, renamed, made to survive a crash where
// asked. Any thread.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace penstock::base {

inline constexpr std::string_view kPartialSuffix = ".partial";

enum class Durable : bool { kNo, kYes };  // kYes: on the device before it has its name

/// Replaces `path` by the pieces, one after the other; readable by this user alone. Throws Error(kIo).
void write_whole(const std::filesystem::path& path, std::span<const std::string_view> pieces,
                 Durable durable);

/// The file and its name are on the device. Throws Error(kIo).
void sync_file(const std::filesystem::path& path);

/// The first `max_bytes` of a file. Throws Error(kIo).
std::string read_front(const std::filesystem::path& path, size_t max_bytes);

}  // namespace penstock::base
