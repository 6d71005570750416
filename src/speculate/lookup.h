// Proposes tokens from a sequence's own text: what followed where its end stands once more, the longest such
// place. While what is drawn goes on as the text did there, so does the match. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace penstock::speculate {

class Lookup {
 public:
  /// A match is compared for `longest` tokens; of places with as many equal ones the latest is taken.
  explicit Lookup(int32_t longest = kSuffix) : longest_(longest) {}

  static constexpr int32_t kSuffix = 64, kNgram = 5;

  struct Match {
    size_t place = 0;    // of the token that followed there
    int32_t length = 0;  // tokens before it that are those at the end
  };

  /// Appends what the sequence has so far or has gained.
  void add(std::span<const int32_t> tokens);
  void add(int32_t token);

  size_t size() const { return tokens_.size(); }
  const std::optional<Match>& match() const { return match_; }

  /// The token that the match says comes next; -1 without one.
  int32_t next() const { return match_ ? tokens_[match_->place] : -1; }

  /// At most `n` tokens that may come next, none without a match. A match that reaches the end of the text
  /// goes on with what was proposed: repetitions repeat.
  std::vector<int32_t> propose(int32_t n) const;

 private:
  static constexpr int32_t kShortest = 2, kMostPlaces = 64;

  void enter(int32_t token);
  std::optional<Match> find() const;

  int32_t longest_;
  std::vector<int32_t> tokens_;
  std::unordered_map<uint64_t, int32_t> latest_;  // by two tokens: the place behind them
  std::vector<int32_t> before_;  // [places] the place before it behind the same two tokens, -1 none
  std::optional<Match> match_;
};

}  // namespace penstock::speculate
