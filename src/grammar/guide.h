// What may follow in one answer: its grammar, begun at once, behind the reasoning or where a trigger appears,
// and a budget of the reasoning. Follows an answer token by token, ahead of itself for drafts. One thread at
// a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/matcher.h"

namespace penstock::grammar {

/// How a model marks what it thinks before it answers. Text as the vocabulary spells it, control tokens too.
struct Reasoning {
  bool open = false;                     // the answer begins inside it
  std::string begin;                     // opens it, if the answer begins so; empty: it cannot be opened
  std::string end;                       // closes it; empty: there is no reasoning
  std::optional<int32_t> budget_tokens;  // behind so many the end is forced
  std::string closing;                   // what is then written, with `end` in it; empty: `end` itself
};

struct GuideOptions {
  std::shared_ptr<const Grammar> grammar;  // null: only the reasoning's budget is kept
  /// The grammar holds from where this text begins, it included; once complete it may begin again. Until then
  /// anything may follow. Empty: it holds for the whole answer behind the reasoning, and its end is the
  /// answer's.
  std::string trigger;
  bool behind_trigger = false;  // the grammar begins behind that text, without it
  Reasoning reasoning = {};
};

class Guide {
 public:
  /// Throws Error(kInvalidRequest) where a tag that must be written cannot be.
  Guide(std::shared_ptr<const Environment> environment, GuideOptions options);

  /// As engine::TokenGuide.
  bool mask(std::span<uint32_t> words);
  size_t allowed(std::span<const int32_t> tokens);
  void accept(int32_t token);
  void rollback(size_t n);
  bool is_done() const { return state_.phase == Phase::kEnded; }

  /// Tokens that can be taken back.
  static constexpr size_t kKept = 256;

 private:
  enum class Phase : uint8_t {
    kStart,      // reasoning may open, or the grammar begin
    kReasoning,  // until its end tag
    kGap,        // whitespace, or the grammar begins
    kWatch,      // until the trigger
    kGrammar,
    kFree,
    kEnded,
  };
  static constexpr int32_t kNotForced = -1;
  struct State {
    Phase phase = Phase::kFree;
    bool tag_lives = true, grammar_lives = true;  // kStart: what it may still become
    size_t matched = 0;                           // bytes of the tag that is looked for
    int32_t reasoning_tokens = 0;
    size_t closing_from = 0;      // what is forced: the closing text from there on
    int32_t forced = kNotForced;  // tokens of it so far
    int32_t gap_tokens = 0;
    size_t fed_begin = 0, fed_end = 0;  // of fed_: what the matcher has consumed
  };

  bool is_lazy() const { return !options_.trigger.empty(); }
  /// The whole answer is held to the grammar.
  bool is_strict() const { return matcher_.has_value() && !is_lazy(); }
  void require_written();
  Phase behind_reasoning() const;

  void step(int32_t token, std::string_view piece);
  void start_step(int32_t token, std::string_view piece);
  void open_reasoning(std::string_view rest);
  void reasoning_step(int32_t token, std::string_view piece);
  void reasoning_text(std::string_view text);
  void close_reasoning(std::string_view rest);
  void force_end_if_due();
  const std::vector<int32_t>& closing();
  void gap_step(int32_t token);
  void watch(std::string_view text);
  void begin_at_trigger(size_t bytes);
  void feed(std::span<const int32_t> tokens);
  void forget_fed();
  bool can_feed(int32_t token) { return matcher_->allowed({&token, 1}) == 1; }
  bool may_follow(int32_t token);

  /// Tokens that complete the tag and go on as they must not.
  const std::vector<int32_t>& refused();
  bool may_close_with(std::string_view rest);
  void mask_all_but(std::span<uint32_t> words, std::span<const int32_t> refused, bool but_stops) const;

  const std::shared_ptr<const Environment> environment_;
  const GuideOptions options_;
  std::shared_ptr<const Tag> begin_, end_, trigger_;  // null where there is none
  std::optional<Matcher> matcher_, fresh_;            // fresh_: at its start, for questions
  std::vector<int32_t> fed_;
  std::map<size_t, std::vector<int32_t>> closings_;                   // by State::closing_from
  std::map<std::pair<Phase, size_t>, std::vector<int32_t>> refused_;  // by phase and bytes matched
  State state_;
  struct Past {
    State before;
    int32_t token;
  };
  std::deque<Past> past_;  // the oldest first
};

}  // namespace penstock::grammar
