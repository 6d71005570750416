// The KV blocks of one group by number: which are free, how many users the others have, and how many are
// promised to sequences that have not taken them yet. Ids only, no arrays. Engine thread.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::cache {

class BlockPool {
 public:
  explicit BlockPool(int32_t n_blocks);

  /// Promises n blocks, or does nothing and returns false when fewer are unpromised.
  bool reserve(int32_t n);
  void unreserve(int32_t n);

  /// A block with one user. Which one is free first does not depend on chance: the last released.
  /// Throws Error(kInternal) when none is free, which a reservation rules out.
  int32_t take();

  /// One user more, one user less; the last one frees the block.
  void retain(int32_t block);
  void release(int32_t block);

  int32_t total() const { return static_cast<int32_t>(users_.size()); }
  int32_t used() const { return total() - static_cast<int32_t>(free_.size()); }
  int32_t unreserved() const { return total() - reserved_; }

 private:
  int32_t& users_of(int32_t block);

  std::vector<int32_t> free_;
  std::vector<int32_t> users_;  // [blocks]
  int32_t reserved_ = 0;
};

}  // namespace penstock::cache
