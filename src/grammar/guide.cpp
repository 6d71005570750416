#include "grammar/guide.h"

#include <algorithm>

#include "base/error.h"

namespace penstock::grammar {
namespace {

using base::Code;
using base::Error;

constexpr int32_t kMostGapTokens = 2;

void allow(std::span<uint32_t> words, int32_t token) {
  const auto at = static_cast<size_t>(token) / 32;
  if (at < words.size()) words[at] |= uint32_t{1} << (token % 32);
}

void refuse(std::span<uint32_t> words, int32_t token) {
  const auto at = static_cast<size_t>(token) / 32;
  if (at < words.size()) words[at] &= ~(uint32_t{1} << (token % 32));
}

bool contains(std::span<const int32_t> tokens, int32_t token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

}  // namespace

Guide::Guide(std::shared_ptr<const Environment> environment, GuideOptions options)
    : environment_(std::move(environment)), options_(std::move(options)) {
  const Reasoning& reasoning = options_.reasoning;
  if (options_.grammar != nullptr) {
    fresh_.emplace(*options_.grammar);
    matcher_.emplace(*fresh_);
  }
  if (is_lazy()) trigger_ = environment_->tag(options_.trigger);
  state_.phase = behind_reasoning();
  if (reasoning.end.empty()) return;
  end_ = environment_->tag(reasoning.end);
  if (reasoning.budget_tokens) require_written();
  if (reasoning.open) {
    state_.phase = Phase::kReasoning;
    force_end_if_due();
  } else if (!reasoning.begin.empty()) {
    begin_ = environment_->tag(reasoning.begin);
    state_.phase = Phase::kStart;
  }
}

/// The end tag must come of the tokens that are forced.
void Guide::require_written() {
  std::string written;
  for (const int32_t token : closing()) written += environment_->codec().piece(token);
  if (written.find(options_.reasoning.end) != std::string::npos) return;
  throw Error(Code::kInvalidRequest, "[grammar.guide] expected tokens that write " + options_.reasoning.end +
                                         " at the end of the reasoning's budget; got " + written);
}

Guide::Phase Guide::behind_reasoning() const {
  if (!matcher_) return Phase::kFree;
  return is_lazy() ? Phase::kWatch : Phase::kGrammar;
}

bool Guide::mask(std::span<uint32_t> words) {
  const auto of_grammar = [&] {
    if (state_.grammar_lives) {
      matcher_->mask(words);
    } else {
      std::ranges::fill(words, 0);
    }
  };
  switch (state_.phase) {
    case Phase::kStart:
      if (!is_strict()) return false;
      of_grammar();
      if (state_.tag_lives) {
        for (const int32_t token : begin_->openers(state_.matched)) allow(words, token);
      }
      return true;
    case Phase::kReasoning:
      if (state_.forced != kNotForced) {
        std::ranges::fill(words, 0);
        allow(words, closing()[static_cast<size_t>(state_.forced)]);
        return true;
      }
      if (!is_strict()) return false;
      mask_all_but(words, refused(), true);
      return true;
    case Phase::kGap:
      of_grammar();
      if (state_.gap_tokens < kMostGapTokens) {
        for (const int32_t token : environment_->spaces()) allow(words, token);
      }
      return true;
    case Phase::kWatch:
      if (refused().empty()) return false;
      mask_all_but(words, refused(), false);
      return true;
    case Phase::kGrammar:
      matcher_->mask(words);
      return true;
    case Phase::kFree:
    case Phase::kEnded:
      return false;
  }
  return false;
}

void Guide::mask_all_but(std::span<uint32_t> words, std::span<const int32_t> refused, bool but_stops) const {
  std::ranges::fill(words, 0);
  const int32_t n = environment_->codec().vocab_size();
  const size_t whole = std::min(words.size(), static_cast<size_t>(n) / 32);
  std::fill_n(words.begin(), whole, ~uint32_t{0});
  for (auto token = static_cast<int32_t>(whole * 32); token < n; ++token) allow(words, token);
  for (const int32_t token : refused) refuse(words, token);
  if (!but_stops) return;
  for (const int32_t token : environment_->stop_ids()) refuse(words, token);
}

const std::vector<int32_t>& Guide::refused() {
  const auto [found, is_new] = refused_.try_emplace({state_.phase, state_.matched});
  if (is_new) {
    const Tag& tag = state_.phase == Phase::kReasoning ? *end_ : *trigger_;
    for (const Tag::Closer& closer : tag.closers(state_.matched)) {
      if (!may_close_with(closer.rest)) found->second.push_back(closer.token);
    }
  }
  return found->second;
}

/// Behind reasoning whitespace may stand before the answer; what follows a trigger is the grammar's.
bool Guide::may_close_with(std::string_view rest) {
  if (state_.phase == Phase::kReasoning) return is_space(rest);
  Matcher trial(*fresh_);
  if (!options_.behind_trigger) trial.consume(environment_->codec().encode(options_.trigger, false));
  return trial.allowed(environment_->cover(rest)) == environment_->cover(rest).size();
}

size_t Guide::allowed(std::span<const int32_t> tokens) {
  if (state_.phase == Phase::kGrammar && !is_lazy()) return matcher_->allowed(tokens);
  size_t n = 0;
  while (n < tokens.size() && !is_done() && may_follow(tokens[n])) accept(tokens[n++]);
  rollback(n);
  return n;
}

bool Guide::may_follow(int32_t token) {
  switch (state_.phase) {
    case Phase::kStart:
      if (!is_strict()) return true;
      return (state_.tag_lives && contains(begin_->openers(state_.matched), token)) ||
             (state_.grammar_lives && can_feed(token));
    case Phase::kReasoning:
      if (state_.forced != kNotForced) return token == closing()[static_cast<size_t>(state_.forced)];
      return !is_strict() || !(contains(environment_->stop_ids(), token) || contains(refused(), token));
    case Phase::kGap:
      return can_feed(token) ||
             (state_.gap_tokens < kMostGapTokens && contains(environment_->spaces(), token));
    case Phase::kWatch:
      return !contains(refused(), token);
    case Phase::kGrammar:
      return can_feed(token);
    case Phase::kFree:
      return true;
    case Phase::kEnded:
      return false;
  }
  return false;
}

void Guide::accept(int32_t token) {
  if (!may_follow(token)) {
    throw Error(Code::kInternal,
                "[grammar.guide] expected a token that may follow; got " + std::to_string(token));
  }
  past_.push_back({state_, token});
  if (past_.size() > kKept) past_.pop_front();
  step(token, environment_->codec().piece(token));
}

void Guide::step(int32_t token, std::string_view piece) {
  switch (state_.phase) {
    case Phase::kStart:
      return start_step(token, piece);
    case Phase::kReasoning:
      return reasoning_step(token, piece);
    case Phase::kGap:
      return gap_step(token);
    case Phase::kWatch:
      return watch(piece);
    case Phase::kGrammar:
      return feed({&token, 1});
    case Phase::kFree:
    case Phase::kEnded:
      return;
  }
}

void Guide::start_step(int32_t token, std::string_view piece) {
  if (!is_strict() && state_.matched == 0 && is_space(piece)) return;
  const std::string_view wanted = std::string_view(options_.reasoning.begin).substr(state_.matched);
  state_.tag_lives = state_.tag_lives && (wanted.starts_with(piece) || piece.starts_with(wanted));
  if (state_.tag_lives) {
    if (piece.size() >= wanted.size()) return open_reasoning(piece.substr(wanted.size()));
    state_.matched += piece.size();
  }
  if (!is_strict()) {
    if (state_.tag_lives) return;
    state_.phase = behind_reasoning();
    state_.matched = 0;
    if (state_.phase == Phase::kWatch) watch(piece);
    return;
  }
  state_.grammar_lives = state_.grammar_lives && can_feed(token);
  if (!state_.tag_lives) state_.phase = Phase::kGrammar;
  if (state_.grammar_lives) feed({&token, 1});
}

void Guide::open_reasoning(std::string_view rest) {
  forget_fed();
  state_.phase = Phase::kReasoning;
  state_.grammar_lives = true;
  state_.matched = 0;
  reasoning_text(rest);
  force_end_if_due();
}

void Guide::reasoning_step(int32_t token, std::string_view piece) {
  ++state_.reasoning_tokens;
  if (state_.forced != kNotForced && token == closing()[static_cast<size_t>(state_.forced)]) ++state_.forced;
  reasoning_text(piece);
  force_end_if_due();
}

void Guide::reasoning_text(std::string_view text) {
  const Tag::Step found = end_->advance(state_.matched, text);
  state_.matched = found.matched;
  if (found.end) close_reasoning(text.substr(*found.end));
}

void Guide::close_reasoning(std::string_view rest) {
  state_.phase = is_strict() ? Phase::kGap : behind_reasoning();
  state_.matched = 0;
  state_.forced = kNotForced;
  if (state_.phase == Phase::kWatch) watch(rest);
}

void Guide::force_end_if_due() {
  const auto budget = options_.reasoning.budget_tokens;
  if (state_.phase != Phase::kReasoning || !budget) return;
  if (state_.forced == kNotForced) {
    if (state_.reasoning_tokens < *budget) return;
    state_.forced = 0;
    state_.closing_from = state_.matched;
  }
  if (static_cast<size_t>(state_.forced) < closing().size()) return;
  throw Error(Code::kInternal, "[grammar.guide] expected the reasoning to end behind its end tag");
}

/// Of an end tag that stands there in part only the rest is written.
const std::vector<int32_t>& Guide::closing() {
  const auto [found, is_new] = closings_.try_emplace(state_.closing_from);
  if (is_new) {
    const Reasoning& reasoning = options_.reasoning;
    const std::string& whole = reasoning.closing.empty() ? reasoning.end : reasoning.closing;
    found->second = environment_->codec().encode(
        state_.closing_from == 0 ? whole : reasoning.end.substr(state_.closing_from), false);
  }
  return found->second;
}

void Guide::gap_step(int32_t token) {
  if (!can_feed(token)) {
    ++state_.gap_tokens;
    return;
  }
  state_.phase = Phase::kGrammar;
  feed({&token, 1});
}

void Guide::watch(std::string_view text) {
  const Tag::Step found = trigger_->advance(state_.matched, text);
  state_.matched = found.matched;
  if (!found.end) return;
  const size_t behind = text.size() - *found.end;
  begin_at_trigger(options_.behind_trigger ? behind : behind + options_.trigger.size());
}

/// The grammar begins so many bytes before the end of what was accepted: with the tokens that stand there,
/// and where it begins within one, with the bytes of the rest of that.
void Guide::begin_at_trigger(size_t bytes) {
  std::vector<int32_t> tokens;
  for (auto it = past_.rbegin(); it != past_.rend() && bytes > 0; ++it) {
    const std::string_view piece = environment_->codec().piece(it->token);
    if (piece.size() <= bytes) {
      tokens.insert(tokens.begin(), it->token);
      bytes -= piece.size();
      continue;
    }
    const std::vector<int32_t> part = environment_->cover(piece.substr(piece.size() - bytes));
    tokens.insert(tokens.begin(), part.begin(), part.end());
    bytes = 0;
  }
  state_.phase = Phase::kGrammar;
  state_.matched = 0;
  forget_fed();
  feed(tokens);
}

void Guide::feed(std::span<const int32_t> tokens) {
  matcher_->consume(tokens);
  fed_.insert(fed_.end(), tokens.begin(), tokens.end());
  state_.fed_end = fed_.size();
  const bool may_become_reasoning = state_.phase == Phase::kStart;
  if (may_become_reasoning || matcher_->state() != Matcher::State::kComplete) return;
  if (!is_lazy()) {
    state_.phase = Phase::kEnded;
    return;
  }
  forget_fed();
  state_.phase = Phase::kWatch;
}

/// The matcher goes back to the grammar's start.
void Guide::forget_fed() {
  if (matcher_) matcher_->rollback(state_.fed_end - state_.fed_begin);
  state_.fed_begin = state_.fed_end = fed_.size();
}

void Guide::rollback(size_t n) {
  if (n == 0) return;
  if (n > past_.size()) {
    throw Error(Code::kInternal, "[grammar.guide] expected at most " + std::to_string(past_.size()) +
                                     " tokens to take back; got " + std::to_string(n));
  }
  const State now = state_;
  state_ = past_[past_.size() - n].before;
  past_.resize(past_.size() - n);
  if (!matcher_) return;
  if (now.fed_begin == state_.fed_begin) {
    matcher_->rollback(now.fed_end - state_.fed_end);
  } else {
    matcher_->rollback(now.fed_end - now.fed_begin);
    matcher_->consume(std::span(fed_).subspan(state_.fed_begin, state_.fed_end - state_.fed_begin));
  }
  fed_.resize(state_.fed_end);
}

}  // namespace penstock::grammar
