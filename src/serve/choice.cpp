#include "serve/choice.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

namespace penstock::serve {
namespace {

text::DetokenizerOptions detokenizer_options(const ChoiceOptions& options) {
  text::DetokenizerOptions out;
  out.at_text_start = options.at_text_start;
  out.spelled = options.spelled_tokens;
  return out;
}

/// Nine letters and digits, which is what the strictest templates want of a call's id.
std::string make_call_id() {
  constexpr std::string_view kAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  static thread_local std::mt19937_64 random(std::random_device{}());
  std::uniform_int_distribution<size_t> letter(0, kAlphabet.size() - 1);
  std::string id;
  for (int i = 0; i < 9; ++i) id += kAlphabet[letter(random)];
  return id;
}

}  // namespace

Choice::Choice(const text::Codec& codec, ChoiceOptions options)
    : codec_(&codec),
      options_(std::move(options)),
      detokenizer_(codec, detokenizer_options(options_)),
      stop_(options_.stop) {}

void Choice::push(std::span<const engine::Token> tokens, std::vector<chat::Event>& events) {
  for (const engine::Token& token : tokens) {
    if (is_over()) break;
    add(token, events);
  }
  flush_text(events, false);
}

void Choice::add(const engine::Token& token, std::vector<chat::Event>& events) {
  ++completion_tokens_;
  const size_t start = produced_bytes_;
  const std::string_view text = detokenizer_.push(token.id);
  produced_bytes_ += text.size();
  if (options_.parser != nullptr || options_.logprobs)
    unplaced_.push_back({start, produced_bytes_, entry(token)});
  parse(text, events);
}

void Choice::parse(std::string_view text, std::vector<chat::Event>& events) {
  if (options_.parser == nullptr) return add_text(text, produced_bytes_ - text.size());
  pieces_.clear();
  options_.parser->push(text, pieces_);
  for (formats::Piece& piece : pieces_) place(piece, events);
}

void Choice::place(formats::Piece& piece, std::vector<chat::Event>& events) {
  if (!is_over()) std::visit([&](auto& value) { on(value, events); }, piece);
}

void Choice::finish(std::vector<chat::Event>& events) {
  if (!is_over()) {
    const std::string_view rest = detokenizer_.finish();
    produced_bytes_ += rest.size();
    parse(rest, events);
    if (options_.parser != nullptr) {
      pieces_.clear();
      options_.parser->finish(pieces_);
      for (formats::Piece& piece : pieces_) place(piece, events);
    }
  }
  end_text(events);
}

void Choice::on(formats::Text& piece, std::vector<chat::Event>&) {
  add_text(piece.text, piece.begin);
}

void Choice::on(formats::Reasoning& piece, std::vector<chat::Event>& events) {
  end_text(events);
  chat::ReasoningDelta delta{options_.index, std::move(piece.text), {}};
  for (Held& token : take_unplaced(piece.begin, piece.begin + delta.text.size())) {
    ++reasoning_tokens_;
    if (token.entry) delta.logprobs.push_back(std::move(*token.entry));
  }
  events.push_back(std::move(delta));
}

void Choice::on(formats::CallBegin& piece, std::vector<chat::Event>& events) {
  end_text(events);
  const bool is_own_id = !piece.id.empty();
  events.push_back(chat::ToolCallStarted{options_.index, calls_,
                                         is_own_id ? std::move(piece.id) : make_call_id(), is_own_id,
                                         std::move(piece.name)});
}

void Choice::on(formats::CallArguments& piece, std::vector<chat::Event>& events) {
  events.push_back(chat::ToolCallDelta{options_.index, calls_, std::move(piece.json)});
}

void Choice::on(formats::CallEnd&, std::vector<chat::Event>& events) {
  events.push_back(chat::ToolCallFinished{options_.index, calls_++});
  has_call_ = true;
  has_only_call_ = !options_.parallel_calls;
}

/// Text of the answer, whose first byte is byte `begin` of what the detokeniser gave.
void Choice::add_text(std::string_view text, size_t begin) {
  if (options_.logprobs) {
    for (Held& token : take_unplaced(begin, begin + text.size())) {
      const auto place = [&](size_t at) {
        return text_bytes_ + std::clamp(at, begin, begin + text.size()) - begin;
      };
      held_.push_back({place(token.start), place(token.end), std::move(token.entry)});
    }
  }
  text_bytes_ += text.size();
  const std::string_view certain = stop_.push(text).text;
  emitted_bytes_ += certain.size();
  text_ += certain;
}

/// The tokens with text in [begin, end), and those without any right before it. Tokens before them were
/// markup.
std::vector<Choice::Held> Choice::take_unplaced(size_t begin, size_t end) {
  std::vector<Held> taken;
  while (!unplaced_.empty()) {
    Held& first = unplaced_.front();
    const bool is_before = first.end < begin || (first.end == begin && first.start < begin);
    if (!is_before && first.start >= end) break;
    if (!is_before) taken.push_back(std::move(first));
    unplaced_.pop_front();
  }
  return taken;
}

/// One event of the certain text, with the tokens whose text is out. At the end all go, but those of a stop
/// string's own tokens.
void Choice::flush_text(std::vector<chat::Event>& events, bool at_end) {
  chat::TextDelta delta{options_.index, std::move(text_), {}};
  text_.clear();
  if (delta.text.empty() && !at_end) return;
  while (!held_.empty()) {
    Held& first = held_.front();
    if (at_end ? stop_.matched() != nullptr && first.start >= emitted_bytes_ : first.end > emitted_bytes_)
      break;
    delta.logprobs.push_back(std::move(*first.entry));
    held_.pop_front();
  }
  if (at_end) held_.clear();
  if (!delta.text.empty() || !delta.logprobs.empty()) events.push_back(std::move(delta));
}

/// What comes next is no text: a stop string does not reach over it.
void Choice::end_text(std::vector<chat::Event>& events) {
  if (stop_.matched() == nullptr) {
    const std::string_view rest = stop_.finish();
    emitted_bytes_ += rest.size();
    text_ += rest;
  }
  flush_text(events, true);
}

chat::TokenLogprob Choice::entry(int32_t id, float logprob) const {
  chat::TokenLogprob entry;
  entry.id = id;
  entry.bytes = codec_->piece(id);
  entry.logprob = logprob;
  return entry;
}

std::optional<chat::TokenLogprob> Choice::entry(const engine::Token& token) const {
  if (!options_.logprobs) return std::nullopt;
  chat::TokenLogprob own = entry(token.id, token.logprob);
  for (const ops::TopToken& top : token.top) own.top.push_back(entry(top.token, top.logprob));
  return own;
}

}  // namespace penstock::serve
