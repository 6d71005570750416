#include "cache/block_pool.h"

#include <cassert>
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
  users_.resize(static_cast<size_t>(n_blocks));
  for (int32_t block = n_blocks - 1; block >= 0; --block) free_.push_back(block);
}

bool BlockPool::reserve(int32_t n) {
  assert(n >= 0);
  if (n > unreserved()) return false;
  reserved_ += n;
  return true;
}

void BlockPool::unreserve(int32_t n) {
  assert(n >= 0 && n <= reserved_);
  reserved_ -= n;
}

int32_t BlockPool::take() {
  if (free_.empty()) {
    throw Error(Code::kInternal,
                "[cache.block_pool] expected a free block; all " + std::to_string(total()) + " are in use");
  }
  const int32_t block = free_.back();
  free_.pop_back();
  users_[static_cast<size_t>(block)] = 1;
  return block;
}

void BlockPool::retain(int32_t block) {
  ++users_of(block);
}

void BlockPool::release(int32_t block) {
  if (--users_of(block) == 0) free_.push_back(block);
}

int32_t& BlockPool::users_of(int32_t block) {
  if (block < 0 || block >= total() || users_[static_cast<size_t>(block)] == 0) {
    throw Error(Code::kInternal, "[cache.block_pool] expected a block in use; got " + std::to_string(block));
  }
  return users_[static_cast<size_t>(block)];
}

}  // namespace penstock::cache
