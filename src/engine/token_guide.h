// What may follow in one constrained sequence: masks over token ids, computed somewhere above the engine from
// a schema, a grammar or a budget, of which the engine knows nothing. Owned by its sequence and used by one
// thread at a time: the engine's, or while a forward runs one of its mask threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::engine {

/// Whatever a guide throws ends its sequence with that text: an answer is never left unconstrained.
class TokenGuide {
 public:
  virtual ~TokenGuide() = default;

  /// The tokens that may follow: bit t % 32 of words[t / 32]. False where any may; `words` then mean nothing.
  virtual bool mask(std::span<uint32_t> words) = 0;

  /// How many of these, from the first, may follow one after the other, up to one behind which nothing may.
  virtual size_t allowed(std::span<const int32_t> tokens) = 0;

  /// The token follows; it is none of the job's stop ids. Throws for one that may not.
  virtual void accept(int32_t token) = 0;

  /// Takes back the last `n` that were accepted.
  virtual void rollback(size_t n) = 0;

  /// Nothing may follow any more: the sequence ends as by a stop id.
  virtual bool is_done() const = 0;
};

}  // namespace penstock::engine
