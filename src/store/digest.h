// Digests of what is downloaded: git's blob hash, whole files. One owner thread; no I/O except
// sha256_of_file.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/digest.h"

namespace penstock::store {

using base::Algorithm;
using base::Digest;
using base::is_hex;

/// The digest that an etag of the hub stands for: 64 hex digits are SHA-256 of the content, 40 are git's blob
/// hash (SHA-1 over "blob SIZE\0" and the content). Null for any other etag, which cannot be checked.
std::unique_ptr<Digest> digest_for_etag(std::string_view etag, uint64_t size_bytes);

/// Lower-case hex SHA-256 of a file. Throws Error(kIo), and kCancelled once `cancel` is set.
std::string sha256_of_file(const std::filesystem::path& path, const std::atomic<bool>* cancel = nullptr);

}  // namespace penstock::store
