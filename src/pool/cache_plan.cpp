#include "pool/cache_plan.h"

#include <algorithm>

#include <fmt/format.h>

namespace penstock::pool {
namespace {

constexpr uint64_t kAutomaticShare = 2;  // the cache takes one part of so many

/// What may be planned for, and how that is said.
struct Room {
  uint64_t free_bytes = 0;
  std::string words;
};

int32_t blocks_of(int64_t tokens, int32_t block_tokens) {
  return static_cast<int32_t>((tokens + block_tokens - 1) / block_tokens);
}

/// Blocks that one sequence of `context` tokens holds at once in a group: a window needs itself, the chunks
/// that are being written, and a block on either side for the cuts.
int32_t blocks_per_sequence(const models::KvGroup& group, int32_t context, const CacheNeeds& needs) {
  const int32_t whole = blocks_of(context, needs.caps.block_tokens);
  if (group.window == 0) return whole;
  const int64_t unread = int64_t{needs.options.prefill_chunk_tokens} * needs.caps.steps_in_flight;
  return std::min(whole, blocks_of(group.window + unread, needs.caps.block_tokens) + 2);
}

uint64_t bytes_per_sequence(const CacheNeeds& needs, int32_t context) {
  uint64_t bytes = 0;
  for (size_t g = 0; g < needs.plan.kv_groups.size(); ++g) {
    bytes += static_cast<uint64_t>(blocks_per_sequence(needs.plan.kv_groups[g], context, needs)) *
             needs.memory.block_bytes[g];
  }
  return bytes;
}

uint64_t buffer_bytes(const CacheNeeds& needs, int32_t slots) {
  return needs.memory.scratch_bytes + needs.memory.slot_bytes * static_cast<uint64_t>(slots);
}

Room room_of(const CacheNeeds& needs, const MemoryGuard& guard) {
  if (needs.memory.device_free_bytes == 0) {
    const uint64_t free = guard.free_bytes();
    return {free, fmt::format("{} free of the {} that memory_guard {} allows", megabytes(free),
                              megabytes(guard.limit_bytes()), guard.tier())};
  }
  const auto device = static_cast<double>(needs.memory.device_free_bytes);
  const auto usable = static_cast<uint64_t>(device * guard.device_share());
  return {usable, fmt::format("{} of the device's {} that are free, as memory_guard {} allows",
                              megabytes(usable), megabytes(needs.memory.device_free_bytes), guard.tier())};
}

/// The longest context of one sequence that fits into `bytes`; 0: not even a block.
int32_t context_that_fits(const CacheNeeds& needs, uint64_t bytes) {
  int32_t low = 0, high = blocks_of(needs.context_length, needs.caps.block_tokens);  // low fits
  while (low < high) {
    const int32_t middle = low + (high - low + 1) / 2;
    const bool fits = bytes_per_sequence(needs, middle * needs.caps.block_tokens) <= bytes;
    fits ? low = middle : high = middle - 1;
  }
  return low * needs.caps.block_tokens;
}

/// What to ask for instead.
std::string what_fits(const CacheNeeds& needs, uint64_t free_bytes) {
  const uint64_t one_slot = needs.memory.weight_bytes + buffer_bytes(needs, 1);
  if (one_slot >= free_bytes)
    return fmt::format("nothing smaller fits, weights and buffers alone take {}", megabytes(one_slot));
  const uint64_t fixed = needs.memory.weight_bytes + buffer_bytes(needs, needs.options.max_seqs);
  if (fixed < free_bytes) {
    const int32_t context = context_that_fits(needs, free_bytes - fixed);
    if (context > 0) return fmt::format("a --context-length of {} would fit", context);
  }
  const int32_t context = context_that_fits(needs, free_bytes - one_slot);
  if (context >= needs.context_length) return "--max-num-seqs 1 would fit";
  return fmt::format("--max-num-seqs 1 and a --context-length of {} would fit", context);
}

[[noreturn]] void refuse(const CacheNeeds& needs, const Room& room, uint64_t cache_bytes,
                         const std::string& cache_words) {
  const uint64_t buffers = buffer_bytes(needs, needs.options.max_seqs);
  throw NoMemory(fmt::format(
      "[pool.load] expected {} for {} (weights {}, buffers of {} sequences {}, cache {} for {}); got {}: {}",
      megabytes(needs.memory.weight_bytes + buffers + cache_bytes),
      needs.options.name.empty() ? "the model" : needs.options.name, megabytes(needs.memory.weight_bytes),
      needs.options.max_seqs, megabytes(buffers), megabytes(cache_bytes), cache_words, room.words,
      what_fits(needs, room.free_bytes)));
}

/// Bytes that the cache may take.
uint64_t cache_budget(const CacheNeeds& needs, const Room& room) {
  const uint64_t fixed = needs.memory.weight_bytes + buffer_bytes(needs, needs.options.max_seqs);
  const uint64_t rest = room.free_bytes > fixed ? room.free_bytes - fixed : 0;
  const uint64_t one = bytes_per_sequence(needs, needs.context_length);
  if (const uint64_t asked = needs.options.kv_memory_bytes; asked != 0) {
    if (asked > rest) refuse(needs, room, asked, "--kv-memory-bytes");
    if (one > asked) {
      throw NoMemory(fmt::format(
          "[pool.load] expected {} of cache for one sequence of {} tokens; got a "
          "--kv-memory-bytes of {}: a --context-length of {} would fit",
          megabytes(one), needs.context_length, megabytes(asked), context_that_fits(needs, asked)));
    }
    return asked;
  }
  if (one > rest) refuse(needs, room, one, fmt::format("one sequence of {} tokens", needs.context_length));
  if (needs.memory.device_free_bytes != 0) return rest;
  return std::max(one, rest / kAutomaticShare);
}

}  // namespace

CachePlan plan_cache(const CacheNeeds& needs, const MemoryGuard& guard) {
  const uint64_t budget = cache_budget(needs, room_of(needs, guard));
  const uint64_t one = bytes_per_sequence(needs, needs.context_length);
  CachePlan planned;
  const auto most = static_cast<uint64_t>(needs.options.max_seqs);
  planned.sequences = static_cast<int32_t>(one == 0 ? most : std::min(most, budget / one));
  for (const models::KvGroup& group : needs.plan.kv_groups)
    planned.n_blocks.push_back(planned.sequences * blocks_per_sequence(group, needs.context_length, needs));
  planned.memory.weight_bytes = needs.memory.weight_bytes;
  planned.memory.cache_bytes = one * static_cast<uint64_t>(planned.sequences);
  planned.memory.buffer_bytes = buffer_bytes(needs, needs.options.max_seqs);
  planned.memory.on_device = needs.memory.device_free_bytes != 0;
  return planned;
}

CachePlan plan_texts(const CacheNeeds& needs, const exec::Limits& limits, const MemoryGuard& guard) {
  CachePlan planned;
  planned.n_blocks = exec::text_blocks(needs.plan, limits, needs.caps.block_tokens);
  planned.sequences = limits.max_slots;
  planned.memory.weight_bytes = needs.memory.weight_bytes;
  for (size_t g = 0; g < planned.n_blocks.size(); ++g)
    planned.memory.cache_bytes += static_cast<uint64_t>(planned.n_blocks[g]) * needs.memory.block_bytes[g];
  planned.memory.buffer_bytes = buffer_bytes(needs, limits.max_slots);
  planned.memory.on_device = needs.memory.device_free_bytes != 0;
  const Room room = room_of(needs, guard);
  if (planned.memory.planned_bytes() > room.free_bytes) {
    throw NoMemory(fmt::format(
        "[pool.load] expected {} for {} (weights {}, buffers {}); got {}",
        megabytes(planned.memory.planned_bytes()),
        needs.options.name.empty() ? "the model" : needs.options.name, megabytes(planned.memory.weight_bytes),
        megabytes(planned.memory.cache_bytes + planned.memory.buffer_bytes), room.words));
  }
  return planned;
}

}  // namespace penstock::pool
