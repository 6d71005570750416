// A folder of cached blocks, for all models of the process: written behind, checked when read, bounded by
// bytes and by what must stay free on the disk. What is damaged is set aside and never served. Thread-safe;
// one thread of its own does all reading and writing and makes all calls back.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "tier/disk_index.h"

namespace penstock::tier {

struct DiskOptions {
  std::filesystem::path directory;
  uint64_t max_bytes = 0;
  uint64_t min_free_bytes = 0;                      // of the file system
  uint64_t max_queued_bytes = uint64_t{128} << 20;  // that wait to be written
  std::chrono::milliseconds stop_wait{5000};        // for what waits to be written, at the end
  std::function<uint64_t(const std::filesystem::path&)> free_bytes;  // null: of the file system
};

/// Since the start, and gauges of now.
struct DiskStats {
  uint64_t written = 0, read = 0, evicted = 0, corrupt = 0, failed = 0;
  uint64_t dropped = 0;  // not written: no room in the queue or on the disk
  uint64_t blocks = 0, bytes = 0, queued_bytes = 0;
};

class DiskStore {
 public:
  /// Takes the folder for this process; what is in it is found meanwhile. Throws Error(kIo), and
  /// kUnavailable where another process has it.
  explicit DiskStore(DiskOptions options);
  /// Writes what waits, for at most options.stop_wait.
  ~DiskStore();
  DiskStore(const DiskStore&) = delete;
  DiskStore& operator=(const DiskStore&) = delete;

  /// A bit for each KV group of the block that is on the disk or about to be; 0: none.
  uint64_t groups(const BlockName& name) const;

  /// How many of `keys` groups() knows, from the first one on.
  int32_t count_first(const Fingerprint& fingerprint, std::span<const cache::PrefixKey> keys) const;

  /// False while so much waits to be written that a caller should come again later.
  bool has_room() const;
  /// Waits for room until then; false where there is none.
  bool wait_for_room(std::chrono::steady_clock::time_point deadline) const;

  /// Writes the block behind the caller's back, unless it is there already.
  void write(const Fingerprint& fingerprint, StoredBlock block);

  /// The longest beginning of `keys` whose blocks can be read and are right, at most `max_bytes` but one
  /// block at least.
  using OnRead = std::function<void(std::vector<StoredBlock>)>;
  void read(const Fingerprint& fingerprint, std::vector<cache::PrefixKey> keys, uint64_t max_bytes,
            OnRead on_read);

  /// Once all that was to be written before is: which of `keys` survive a crash from here on.
  using OnSync = std::function<void(std::vector<cache::PrefixKey>)>;
  void sync(const Fingerprint& fingerprint, std::vector<cache::PrefixKey> keys, OnSync on_sync);

  void erase(const Fingerprint& fingerprint, std::vector<cache::PrefixKey> keys);
  /// All that is not pinned, of all models.
  void clear();
  /// They stay until then, as far as they are there, for bytes and free disk alike; a time that is past lets
  /// go.
  void pin(const Fingerprint& fingerprint, std::span<const cache::PrefixKey> keys, DiskIndex::Time until);

  /// Calls on the store's thread, behind what was to be written before.
  void post(std::function<void()> call);

  /// Calls once when there is room, on the store's thread.
  void when_room(std::function<void()> call);

  /// Returns when everything that was asked before is done, and what is in the folder found.
  void wait_idle() const;

  DiskStats stats() const;
  const std::filesystem::path& directory() const { return options_.directory; }

 private:
  struct Task {
    std::function<void()> run;
    uint64_t queued_bytes = 0;
  };

  void run();
  void push(std::deque<Task>& queue, Task task);
  void tell_room(std::unique_lock<std::mutex>& lock);
  void rescan();
  void write_now(const BlockName& name, const StoredBlock& block);
  bool make_room(const BlockName& name, uint64_t bytes);
  std::optional<StoredBlock> read_now(const BlockName& name);
  void remove_now(const BlockName& name);
  void set_aside(const std::filesystem::path& path, const std::string& why);
  std::filesystem::path path_of(const BlockName& name) const;
  uint64_t free_bytes() const;

  const DiskOptions options_;
  int lock_fd_ = -1;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  DiskIndex index_;
  DiskIndex pending_;  // blocks that wait to be written
  std::deque<Task> reads_, writes_;
  std::vector<std::function<void()>> room_calls_;
  DiskStats stats_;
  bool busy_ = true, stopping_ = false;
  std::thread thread_;
};

}  // namespace penstock::tier
