// One block of the key and value cache as a file: a header that says what it is and which tokens it stands
// for, then the bytes of each KV group. Written under another name and renamed, checked when it is read. Pure
// functions on paths, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cache/prefix_index.h"

namespace penstock::tier {

/// What decides the bytes of a block beside its tokens: the model's files, the executor, its layout. 32 hex
/// digits.
using Fingerprint = std::string;

/// Which block of which model.
struct BlockName {
  Fingerprint fingerprint;
  cache::PrefixKey key;
  bool operator==(const BlockName&) const = default;
};

struct BlockHeader {
  BlockName name;
  cache::PrefixKey parent;            // of the block before it
  std::vector<int32_t> tokens;        // of the block, at least one
  std::vector<uint64_t> group_bytes;  // [KV groups], 0: not in the file
  std::string body_digest;            // SHA-256, 64 hex digits

  uint64_t body_bytes() const;
  /// A bit for each KV group that the file holds.
  uint64_t groups() const;
};

/// A block on its way to or from the disk.
struct StoredBlock {
  cache::PrefixKey key, parent;
  std::vector<int32_t> tokens;
  std::vector<std::vector<std::byte>> groups;  // [KV groups], empty: not there

  uint64_t bytes() const;
  uint64_t mask() const;  // a bit for each group that is there
};

inline constexpr size_t kMaxHeaderBytes = 16384;  // room for 1,024 tokens and 64 groups
inline constexpr size_t kMaxGroups = 64;

/// "0123..." of both halves, 32 hex digits.
std::string hex(cache::PrefixKey key);

/// The header at the front of a file of `file_bytes`. Throws Error(kCorrupt) saying what is wrong with it.
BlockHeader parse_header(std::span<const std::byte> front, uint64_t file_bytes);

/// Reads no more than the header. Throws Error(kCorrupt), kIo.
BlockHeader read_header(const std::filesystem::path& path);

/// The whole file, whose digest and name must be right. Throws Error(kCorrupt), kIo.
StoredBlock read_block(const std::filesystem::path& path, const BlockName& name);

/// Under `path` stands the whole block or what stood there before. Returns the bytes of the file. Throws
/// Error(kIo).
uint64_t write_block(const std::filesystem::path& path, const Fingerprint& fingerprint,
                     const StoredBlock& block);

}  // namespace penstock::tier
