// Where one answer stands in its grammar. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "grammar/grammar.h"

struct TextkitMatcher;

namespace penstock::grammar {

class Matcher {
 public:
  /// At the grammar's start. `grammar` need not outlive it.
  explicit Matcher(const Grammar& grammar);
  Matcher(const Matcher& other);
  Matcher(Matcher&&) noexcept = default;
  Matcher& operator=(Matcher&&) noexcept = default;

  // All throw Error(kInvalidRequest) once the grammar has become too complex to follow.

  /// Bit t % 32 of words[t / 32] becomes 1 for a token that may follow, 0 for others and behind the
  /// vocabulary.
  void mask(std::span<uint32_t> words);
  /// Throws for a token that may not follow; the matcher is then of no more use.
  void consume(std::span<const int32_t> tokens);
  /// How many of the tokens, from the first, may follow.
  size_t allowed(std::span<const int32_t> tokens);
  void rollback(size_t n);

  enum class State : uint8_t { kOpen, kAccepting, kComplete };
  /// kAccepting: it may end here; kComplete: nothing can follow.
  State state();

 private:
  struct Free {
    void operator()(TextkitMatcher* handle) const;
  };
  std::unique_ptr<TextkitMatcher, Free> handle_;
};

}  // namespace penstock::grammar
