// The Hugging Face cache on disk, exactly as its own library lays it out:
// models--org--name/{blobs,refs,snapshots}. Any thread; writers hold the cache's own lock files. No network,
// and nothing is read from inside weights.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::store {

/// One revision of a repository that is at least partly here.
struct Snapshot {
  std::string repo;              // "org/name"
  std::string commit;            // 40 hex digits
  std::filesystem::path folder;  // .../snapshots/COMMIT, with links into blobs
};

struct CachedRepo {
  std::string repo;
  std::filesystem::path folder;  // .../models--org--name
  uint64_t size_bytes = 0;       // each blob once, unfinished downloads included
  std::vector<Snapshot> snapshots;
  std::vector<std::filesystem::path> unfinished;  // *.incomplete
};

class HubCache {
 public:
  explicit HubCache(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path repo_folder(std::string_view repo) const;
  std::filesystem::path blob(std::string_view repo, std::string_view etag) const;

  /// The snapshot that refs/REVISION points to, or the one whose name is REVISION; nothing if neither is
  /// here.
  std::optional<Snapshot> find(std::string_view repo, std::string_view revision = "main") const;

  /// Every model repository, by name. Data sets and spaces are left alone.
  std::vector<CachedRepo> list() const;
  std::optional<CachedRepo> describe(std::string_view repo) const;

  /// Removes the repository with its locks. The bytes that it gives back. Throws Error(kNotFound).
  uint64_t remove(std::string_view repo);

  /// Removes one file of a snapshot, and its blob unless another snapshot still points to it. An emptied
  /// repository goes too. The bytes that it gives back.
  uint64_t remove_file(const Snapshot& snapshot, const std::filesystem::path& file);

  /// Makes snapshots/COMMIT/FILE a relative link to the blob; replaces what is there in one step.
  void link(std::string_view repo, std::string_view commit, std::string_view file, std::string_view etag);

  /// Writes refs/REVISION in one step; done last, so that a pull that stopped half way is never taken for a
  /// model.
  void write_ref(std::string_view repo, std::string_view revision, std::string_view commit);

 private:
  std::filesystem::path root_;
};

/// Holds .locks/models--org--name/ETAG.lock, the file that the hub's own library locks too. Waits for another
/// holder.
class BlobLock {
 public:
  BlobLock(const HubCache& cache, std::string_view repo, std::string_view etag,
           const std::atomic<bool>* cancel);
  ~BlobLock();
  BlobLock(const BlobLock&) = delete;
  BlobLock& operator=(const BlobLock&) = delete;

 private:
  int descriptor_ = -1;
};

/// True for "name" or "org/name" of letters, digits, '.', '_', '-', without "..", "--" or an end in ".git".
bool is_repo_id(std::string_view text);

/// True for a relative path of a repository that stays inside: no "..", no empty part, no backslash.
bool is_safe_file(std::string_view file);

}  // namespace penstock::store
