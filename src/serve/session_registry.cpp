#include "serve/session_registry.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/unix_time.h"

namespace penstock::serve {
namespace {

using base::Code;
using base::Error;

constexpr size_t kMaxSessions = 10000;

Error unknown(const std::string& id) {
  return {Code::kNotFound, "[serve.sessions] expected the id of a session; got '" + id + "'", "id"};
}

}  // namespace

std::vector<cache::PrefixKey> keys_of(const SessionRecord& record, int32_t keep_tokens) {
  if (record.block_tokens == 0) return {};
  return cache::block_keys(
      {cache::salted_root(record.salt), record.tokens, static_cast<int32_t>(record.tokens.size())},
      record.block_tokens, keep_tokens);
}

SessionRecord SessionRegistry::Kept::find(const std::string& id) {
  const std::lock_guard lock(mutex);
  const auto it = by_id.find(id);
  if (it == by_id.end()) throw unknown(id);
  return it->second;
}

/// A session that is gone meanwhile needs no file.
void SessionRegistry::Kept::write_behind(const std::string& id) {
  try {
    const std::lock_guard files_lock(files_mutex);
    if (files) files->write(find(id));
  } catch (const Error& error) {
    if (error.code() != Code::kNotFound) base::log::warn("a session was not written: {}", error.text());
  }
}

void SessionRegistry::Kept::erase_file(const std::string& id) {
  const std::lock_guard files_lock(files_mutex);
  if (files) files->erase(id);
}

SessionRegistry::SessionRegistry(std::shared_ptr<tier::DiskStore> disk)
    : disk_(std::move(disk)), kept_(std::make_shared<Kept>()) {
  if (!disk_) return;
  kept_->files.emplace(disk_->directory());
  for (SessionRecord& record : kept_->files->read_all()) {
    keep_pinned(record);
    kept_->by_id.emplace(record.id, std::move(record));
  }
}

void SessionRegistry::note(SessionRecord use) {
  const std::string id = use.id;
  {
    const std::lock_guard lock(kept_->mutex);
    use.used_ms = use.created_ms = base::unix_ms();
    if (const auto it = kept_->by_id.find(id); it != kept_->by_id.end()) {
      use.created_ms = it->second.created_ms;
      use.pinned_until_ms = it->second.pinned_until_ms;
    } else {
      make_room_locked();
    }
    keep_pinned(use);
    kept_->by_id[id] = std::move(use);
  }
  if (disk_) disk_->post([kept = kept_, id] { kept->write_behind(id); });
}

/// The session that was unused for longest goes, if it is neither parked nor pinned.
void SessionRegistry::make_room_locked() {
  auto& by_id = kept_->by_id;
  if (by_id.size() < kMaxSessions) return;
  auto oldest = by_id.end();
  for (auto it = by_id.begin(); it != by_id.end(); ++it) {
    if (it->second.parked || it->second.pinned_until_ms > base::unix_ms()) continue;
    if (oldest == by_id.end() || it->second.used_ms < oldest->second.used_ms) oldest = it;
  }
  if (oldest == by_id.end()) {
    throw Error(Code::kOverloaded, "[serve.sessions] expected at most " + std::to_string(kMaxSessions) +
                                       " sessions; all of them are parked or pinned");
  }
  if (disk_) disk_->post([kept = kept_, id = oldest->first] { kept->erase_file(id); });
  by_id.erase(oldest);
}

void SessionRegistry::keep_pinned(const SessionRecord& record) const {
  if (!disk_ || record.pinned_until_ms == 0) return;
  disk_->pin(record.fingerprint, keys_of(record),
             std::chrono::system_clock::time_point(std::chrono::milliseconds(record.pinned_until_ms)));
}

std::vector<SessionRecord> SessionRegistry::list() const {
  std::vector<SessionRecord> records;
  {
    const std::lock_guard lock(kept_->mutex);
    for (const auto& [id, record] : kept_->by_id) records.push_back(record);
  }
  std::ranges::sort(records, std::greater<>(), &SessionRecord::used_ms);
  return records;
}

SessionRecord SessionRegistry::find(const std::string& id) const {
  return kept_->find(id);
}

void SessionRegistry::set_parked(const std::string& id, bool parked) {
  const std::lock_guard files_lock(kept_->files_mutex);
  SessionRecord record = find(id);
  record.parked = parked;
  if (kept_->files) kept_->files->write(record);
  const std::lock_guard lock(kept_->mutex);
  if (const auto it = kept_->by_id.find(id); it != kept_->by_id.end()) it->second.parked = parked;
}

void SessionRegistry::pin(const std::string& id, int64_t until_ms) {
  if (!disk_) {
    throw Error(
        Code::kUnsupported,
        "[serve.sessions] expected a disk cache to pin on; there is none: start with --disk-cache-dir");
  }
  const std::lock_guard files_lock(kept_->files_mutex);
  SessionRecord record = find(id);
  record.pinned_until_ms = until_ms;
  kept_->files->write(record);
  if (until_ms == 0) record.pinned_until_ms = 1;  // long past
  keep_pinned(record);
  const std::lock_guard lock(kept_->mutex);
  if (const auto it = kept_->by_id.find(id); it != kept_->by_id.end()) it->second.pinned_until_ms = until_ms;
}

void SessionRegistry::erase(const std::string& id) {
  const std::lock_guard files_lock(kept_->files_mutex);
  if (kept_->files) kept_->files->erase(id);
  const std::lock_guard lock(kept_->mutex);
  if (kept_->by_id.erase(id) == 0) throw unknown(id);
}

int32_t SessionRegistry::shared_tokens(const SessionRecord& record) const {
  size_t most = 0;
  const std::lock_guard lock(kept_->mutex);
  for (const auto& [id, other] : kept_->by_id) {
    if (id == record.id || other.fingerprint != record.fingerprint || other.salt != record.salt ||
        other.model != record.model) {
      continue;
    }
    const auto ends = std::ranges::mismatch(record.tokens, other.tokens);
    most = std::max(most, static_cast<size_t>(ends.in1 - record.tokens.begin()));
  }
  return static_cast<int32_t>(most);
}

}  // namespace penstock::serve
