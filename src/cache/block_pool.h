// The KV blocks of one group by number: who uses each one, which unused ones are kept for what they hold,
// which are empty. Ids only, no arrays. Engine thread.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <vector>

namespace penstock::cache {

class BlockPool {
 public:
  explicit BlockPool(int32_t n_blocks);

  /// A block with one user: the empty one released last, else the kept one that has been unused for longest,
  /// of which `on_evict` hears first. Throws Error(kInternal) when all are in use.
  int32_t take();

  /// One user more, of a block in use or kept.
  void retain(int32_t block);
  /// One user less. Without users a block is kept or empty.
  void release(int32_t block);

  /// What the block holds is wanted when nobody uses it any more, until it is taken or forgotten.
  void keep(int32_t block);
  void forget(int32_t block);

  int32_t users(int32_t block) const;
  int32_t total() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t used() const { return total() - available(); }
  int32_t kept() const { return static_cast<int32_t>(unused_.size()); }
  /// Blocks that take() can give.
  int32_t available() const { return static_cast<int32_t>(empty_.size() + unused_.size()); }

  /// Blocks that hold nothing that is wanted.
  std::span<const int32_t> empty() const { return empty_; }

  std::function<void(int32_t block)> on_evict;  // must not call this pool

 private:
  struct Block {
    int32_t users = 0;
    bool kept = false;
    std::list<int32_t>::iterator place;  // in unused_, where kept without users
  };
  Block& at(int32_t block);

  std::vector<Block> blocks_;
  std::vector<int32_t> empty_;
  std::list<int32_t> unused_;  // kept blocks without users, the longest unused first
};

}  // namespace penstock::cache
