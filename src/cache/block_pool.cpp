#include "cache/block_pool.h"

#include <string>

#include "base/error.h"

namespace penstock::cache {

using base::Code;
using base::Error;

BlockPool::BlockPool(int32_t n_blocks) {
  if (n_blocks < 0) {
    throw Error(Code::kInternal,
                "[cache.block_pool] expected a count of blocks; got " + std::to_string(n_blocks));
  }
  blocks_.resize(static_cast<size_t>(n_blocks));
  for (int32_t block = n_blocks - 1; block >= 0; --block) empty_.push_back(block);
}

int32_t BlockPool::take() {
  int32_t block = -1;
  if (!empty_.empty()) {
    block = empty_.back();
    empty_.pop_back();
  } else if (!unused_.empty()) {
    block = unused_.front();
    unused_.pop_front();
    at(block).kept = false;
    if (on_evict) on_evict(block);
  } else {
    throw Error(Code::kInternal,
                "[cache.block_pool] expected a free block; all " + std::to_string(total()) + " are in use");
  }
  at(block).users = 1;
  return block;
}

void BlockPool::retain(int32_t block) {
  Block& b = at(block);
  if (b.users == 0) {
    if (!b.kept) {
      throw Error(Code::kInternal,
                  "[cache.block_pool] expected a block in use or kept; got " + std::to_string(block));
    }
    unused_.erase(b.place);
  }
  ++b.users;
}

void BlockPool::release(int32_t block) {
  Block& b = at(block);
  if (b.users == 0) {
    throw Error(Code::kInternal, "[cache.block_pool] expected a block in use; got " + std::to_string(block));
  }
  if (--b.users > 0) return;
  if (b.kept) {
    b.place = unused_.insert(unused_.end(), block);
  } else {
    empty_.push_back(block);
  }
}

void BlockPool::keep(int32_t block) {
  Block& b = at(block);
  if (b.users == 0 && !b.kept) {
    throw Error(Code::kInternal,
                "[cache.block_pool] expected a block in use to keep; got " + std::to_string(block));
  }
  b.kept = true;
}

void BlockPool::forget(int32_t block) {
  Block& b = at(block);
  if (b.kept && b.users == 0) {
    unused_.erase(b.place);
    empty_.push_back(block);
  }
  b.kept = false;
}

int32_t BlockPool::users(int32_t block) const {
  return blocks_.at(static_cast<size_t>(block)).users;
}

BlockPool::Block& BlockPool::at(int32_t block) {
  if (block < 0 || block >= total()) {
    throw Error(Code::kInternal,
                "[cache.block_pool] expected a block of the pool; got " + std::to_string(block));
  }
  return blocks_[static_cast<size_t>(block)];
}

}  // namespace penstock::cache
