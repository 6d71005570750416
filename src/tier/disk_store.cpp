#include "tier/disk_store.h"

#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/whole_file.h"

namespace penstock::tier {
namespace {

namespace fs = std::filesystem;
using base::Code;
using base::Error;

/// Opens the lock file and takes it; another process may not have it.
int take_folder(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory / "blocks", error);
  if (error) {
    throw Error(Code::kIo, "[tier.disk_store] expected a folder for cached blocks at " + directory.string() +
                               "; " + error.message());
  }
  fs::permissions(directory, fs::perms::owner_all, error);  // what people wrote is in it
  const fs::path path = directory / "lock";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    throw Error(Code::kIo, "[tier.disk_store] expected to write in " + directory.string() +
                               "; could not open " + path.string());
  }
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    ::close(fd);
    throw Error(Code::kUnavailable, "[tier.disk_store] expected " + directory.string() +
                                        " to be free; another process uses it: give each server a folder of "
                                        "its own");
  }
  return fd;
}

}  // namespace

DiskStore::DiskStore(DiskOptions options)
    : options_(std::move(options)), lock_fd_(take_folder(options_.directory)) {
  thread_ = std::thread([this] { run(); });
}

DiskStore::~DiskStore() {
  {
    std::unique_lock lock(mutex_);
    reads_.clear();
    changed_.wait_for(lock, options_.stop_wait, [&] { return writes_.empty() && !busy_; });
    stats_.dropped += pending_.n_blocks();
    writes_.clear();
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  ::close(lock_fd_);
}

uint64_t DiskStore::groups(const BlockName& name) const {
  const std::lock_guard lock(mutex_);
  const DiskIndex::Entry* there = index_.find(name);
  const DiskIndex::Entry* coming = pending_.find(name);
  return (there == nullptr ? 0 : there->groups) | (coming == nullptr ? 0 : coming->groups);
}

int32_t DiskStore::count_first(const Fingerprint& fingerprint, std::span<const cache::PrefixKey> keys) const {
  int32_t n = 0;
  for (const cache::PrefixKey key : keys) {
    if (groups({fingerprint, key}) == 0) break;
    ++n;
  }
  return n;
}

bool DiskStore::has_room() const {
  const std::lock_guard lock(mutex_);
  return stats_.queued_bytes < options_.max_queued_bytes;
}

bool DiskStore::wait_for_room(std::chrono::steady_clock::time_point deadline) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [&] { return stats_.queued_bytes < options_.max_queued_bytes; });
}

void DiskStore::post(std::function<void()> call) {
  push(writes_, {std::move(call)});
}

void DiskStore::when_room(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    room_calls_.push_back(std::move(call));
  }
  changed_.notify_all();
}

void DiskStore::push(std::deque<Task>& queue, Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    stats_.queued_bytes += task.queued_bytes;
    queue.push_back(std::move(task));
  }
  changed_.notify_all();
}

void DiskStore::write(const Fingerprint& fingerprint, StoredBlock block) {
  const BlockName name{fingerprint, block.key};
  const uint64_t bytes = block.bytes(), mask = block.mask();
  {
    const std::lock_guard lock(mutex_);
    const DiskIndex::Entry* there = index_.find(name);
    if (there != nullptr && (mask & there->groups) == mask) return index_.touch(name);
    if (there != nullptr && (mask & there->groups) != there->groups) return;  // each has what the other lacks
    if (pending_.find(name) != nullptr) return;
    pending_.put(name, {bytes, mask});
  }
  const auto shared = std::make_shared<const StoredBlock>(std::move(block));
  push(writes_, {[this, name, shared] { write_now(name, *shared); }, bytes});
}

void DiskStore::read(const Fingerprint& fingerprint, std::vector<cache::PrefixKey> keys, uint64_t max_bytes,
                     OnRead on_read) {
  push(reads_, {[this, fingerprint, keys = std::move(keys), max_bytes, on_read = std::move(on_read)] {
         std::vector<StoredBlock> blocks;
         uint64_t bytes = 0;
         for (const cache::PrefixKey key : keys) {
           std::optional<StoredBlock> block = read_now({fingerprint, key});
           if (!block) break;
           bytes += block->bytes();
           blocks.push_back(std::move(*block));
           if (bytes >= max_bytes) break;
         }
         on_read(std::move(blocks));
       }});
}

void DiskStore::sync(const Fingerprint& fingerprint, std::vector<cache::PrefixKey> keys, OnSync on_sync) {
  push(writes_, {[this, fingerprint, keys = std::move(keys), on_sync = std::move(on_sync)] {
         std::vector<cache::PrefixKey> safe;
         for (const cache::PrefixKey key : keys) {
           const BlockName name{fingerprint, key};
           if (groups(name) == 0) continue;
           try {
             base::sync_file(path_of(name));
             safe.push_back(key);
           } catch (const Error& error) {
             base::log::warn("a cached block may not survive a crash: {}", error.text());
           }
         }
         on_sync(std::move(safe));
       }});
}

void DiskStore::erase(const Fingerprint& fingerprint, std::vector<cache::PrefixKey> keys) {
  push(writes_, {[this, fingerprint, keys = std::move(keys)] {
         for (const cache::PrefixKey key : keys) remove_now({fingerprint, key});
       }});
}

void DiskStore::clear() {
  push(writes_, {[this] {
         for (;;) {
           std::optional<BlockName> name;
           {
             const std::lock_guard lock(mutex_);
             name = index_.oldest(std::chrono::system_clock::now());
           }
           if (!name) return;
           remove_now(*name);
         }
       }});
}

void DiskStore::pin(const Fingerprint& fingerprint, std::span<const cache::PrefixKey> keys,
                    DiskIndex::Time until) {
  const auto now = std::chrono::system_clock::now();
  const std::lock_guard lock(mutex_);
  for (const cache::PrefixKey key : keys)
    until > now ? index_.pin({fingerprint, key}, until) : index_.unpin({fingerprint, key});
}

void DiskStore::wait_idle() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return reads_.empty() && writes_.empty() && !busy_; });
}

DiskStats DiskStore::stats() const {
  const std::lock_guard lock(mutex_);
  DiskStats stats = stats_;
  stats.blocks = index_.n_blocks();
  stats.bytes = index_.bytes();
  return stats;
}

/// What somebody waits for goes first.
void DiskStore::run() {
  rescan();
  std::unique_lock lock(mutex_);
  for (;;) {
    busy_ = false;
    changed_.notify_all();
    tell_room(lock);
    changed_.wait(lock,
                  [&] { return stopping_ || !reads_.empty() || !writes_.empty() || !room_calls_.empty(); });
    if (stopping_) return;
    std::deque<Task>& queue = reads_.empty() ? writes_ : reads_;
    if (queue.empty()) continue;
    Task task = std::move(queue.front());
    queue.pop_front();
    busy_ = true;
    lock.unlock();
    try {
      task.run();
    } catch (const std::exception& error) {
      base::log::error("the disk cache failed: {}", error.what());
    }
    task.run = nullptr;
    lock.lock();
    stats_.queued_bytes -= task.queued_bytes;
  }
}

void DiskStore::tell_room(std::unique_lock<std::mutex>& lock) {
  if (room_calls_.empty() || stats_.queued_bytes >= options_.max_queued_bytes) return;
  const std::vector<std::function<void()>> calls = std::exchange(room_calls_, {});
  lock.unlock();
  for (const auto& call : calls) call();
  lock.lock();
}

}  // namespace penstock::tier
