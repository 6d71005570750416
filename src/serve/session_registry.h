// The sessions of a server: which tokens the last request of each one ended with, so that they can be parked
// and brought back. Kept on the disk where there is a disk cache. Thread-safe; asks no engine.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tier/disk_store.h"
#include "tier/session_files.h"

namespace penstock::serve {

using tier::SessionRecord;

class SessionRegistry {
 public:
  /// `disk` may be null: sessions then end with the process. Finds those that were there, and keeps pinned
  /// what they had pinned.
  explicit SessionRegistry(std::shared_ptr<tier::DiskStore> disk);

  /// A request of the session ended; `use` says all but times and pins. Written behind.
  void note(SessionRecord use);

  std::vector<SessionRecord> list() const;  // the last used first
  /// Throws Error(kNotFound).
  SessionRecord find(const std::string& id) const;

  /// Says that its blocks are on the disk alone, or no longer; safe from a crash on return. Throws
  /// Error(kIo), kNotFound.
  void set_parked(const std::string& id, bool parked);

  /// Keeps its blocks on the disk until then; 0 lets go. Safe from a crash on return. Throws
  /// Error(kNotFound), kIo, kUnsupported without a disk.
  void pin(const std::string& id, int64_t until_ms);

  void erase(const std::string& id);

  /// Tokens at the front of the session that another one has too.
  int32_t shared_tokens(const SessionRecord& record) const;

  const std::shared_ptr<tier::DiskStore>& disk() const { return disk_; }

 private:
  /// What the disk's thread uses too; it may outlive the registry.
  struct Kept {
    std::optional<tier::SessionFiles> files;
    std::mutex files_mutex;  // taken before the other
    std::mutex mutex;
    std::map<std::string, SessionRecord> by_id;

    /// Throws Error(kNotFound).
    SessionRecord find(const std::string& id);
    void write_behind(const std::string& id);
    void erase_file(const std::string& id);
  };

  void keep_pinned(const SessionRecord& record) const;
  void make_room_locked();

  const std::shared_ptr<tier::DiskStore> disk_;
  const std::shared_ptr<Kept> kept_;
};

/// The keys of the whole blocks of a session, but for those among its first `keep_tokens`.
std::vector<cache::PrefixKey> keys_of(const SessionRecord& record, int32_t keep_tokens = 0);

}  // namespace penstock::serve
