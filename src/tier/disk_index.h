// Which blocks are on the disk, with their sizes, in the order of their last use. Names only, no I/O. Under
// the mutex of its owner.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

#include "tier/block_file.h"

namespace penstock::tier {

class DiskIndex {
 public:
  using Time = std::chrono::system_clock::time_point;  // pins outlive the process

  struct Entry {
    uint64_t file_bytes = 0;
    uint64_t groups = 0;  // a bit for each KV group in the file
  };

  /// The newest use is now; replaces what stood under the name.
  void put(const BlockName& name, Entry entry);
  void erase(const BlockName& name);
  void touch(const BlockName& name);
  /// Null where it is not there.
  const Entry* find(const BlockName& name) const;

  /// Keeps the block from being the oldest until then, whether it is there yet or not.
  void pin(const BlockName& name, Time until);
  void unpin(const BlockName& name) { pins_.erase(name); }
  bool is_pinned(const BlockName& name, Time now) const;

  /// The block that was unused for longest and is not pinned.
  std::optional<BlockName> oldest(Time now) const;

  uint64_t bytes() const { return bytes_; }
  uint64_t n_blocks() const { return entries_.size(); }

 private:
  struct NameHash {
    size_t operator()(const BlockName& name) const {
      return static_cast<size_t>(name.key.low) ^ std::hash<std::string>()(name.fingerprint);
    }
  };
  struct Item {
    Entry entry;
    std::list<BlockName>::iterator place;
  };

  std::unordered_map<BlockName, Item, NameHash> entries_;
  std::unordered_map<BlockName, Time, NameHash> pins_;
  std::list<BlockName> by_use_;  // the longest unused first
  uint64_t bytes_ = 0;
};

}  // namespace penstock::tier
