#include "formats/answer.h"

#include <string>

#include "formats/messages.h"

namespace penstock::formats {
namespace {

constexpr size_t kHeldBytes = 4096;  // of text behind a tag that may be a mention of it

/// The text of an answer as it is read.
class Answer {
 public:
  Answer(Reading& r, const ToolFormat* tools, const ReasoningFormat* reasoning)
      : r_(r), tools_(tools), reasoning_(reasoning) {
    if (tools_ != nullptr) {
      for (const Opener& opener : tools_->openers) first_bytes_ += opener.marker.front();
    }
    if (reasoning_ == nullptr) return;
    first_bytes_ += reasoning_->open.front();
    for (const std::string_view marker : reasoning_->dropped) first_bytes_ += marker.front();
    first_bytes_ += reasoning_->close.front();
  }

  Step read(bool in_reasoning) {
    if (in_reasoning && reasoning_ != nullptr) {
      co_await read_reasoning();
      after_markup();
    }
    if (tools_ != nullptr && tools_->read_begin != nullptr) {
      const bool is_markup = co_await read_begin();
      if (is_markup) after_markup();
    }
    for (;;) {
      const bool has_byte = co_await r_.in.more();
      if (!has_byte) break;
      const char c = r_.in.peek();
      if (first_bytes_.find(c) != std::string::npos) {
        const bool is_markup = co_await read_markup();
        if (is_markup) {
          after_markup();
          continue;
        }
      }
      r_.in.take();
      if (!is_space(c)) {
        emit_text();
        is_line_start_ = is_blank_ = is_touching_ = false;
      } else if (c == '\n') {
        is_line_start_ = true;
      }
      previous_ = c;
    }
    emit_text();
    co_return true;
  }

 private:
  void after_markup() {
    text_from_ = r_.in.position();
    is_line_start_ = is_touching_ = true;
    previous_ = '\n';
  }

  /// The text up to the cursor. Space at its beginning that touches markup is none.
  void emit_text() {
    const size_t end = r_.in.position();
    if (is_touching_) {
      while (text_from_ < end && is_space(r_.in.between(text_from_, end).front())) ++text_from_;
    }
    r_.out.text(r_.in.between(text_from_, end), text_from_);
    text_from_ = end;
    r_.in.forget();
  }

  bool may_stand_here(Where where) const {
    return where == Where::kAnywhere || (where == Where::kLineStart && is_line_start_) ||
           (where == Where::kAnswerStart && is_blank_);
  }

  Step read_begin() {
    const size_t begin = r_.in.position();
    const bool is_read = co_await tools_->read_begin(r_);
    const bool is_markup = is_read || r_.out.calls() > 0;
    if (!is_markup) r_.in.rewind(begin);
    co_return is_markup;
  }

  /// Reads what begins at the cursor if it is markup; else the cursor stays.
  Step read_markup() {
    const size_t begin = r_.in.position();
    if (tools_ != nullptr) {
      for (const Opener& opener : tools_->openers) {
        if (!may_stand_here(opener.where)) continue;
        if (!co_await r_.in.accept(opener.marker)) continue;
        const size_t calls = r_.out.calls();
        const bool is_read = co_await opener.read(r_, opener);
        if (is_read || r_.out.calls() > calls) co_return true;
        r_.in.rewind(begin);
      }
    }
    if (reasoning_ == nullptr) co_return false;
    if (co_await r_.in.accept(reasoning_->open)) {
      const bool is_reasoning = co_await begins_reasoning();
      if (is_reasoning) co_return co_await read_reasoning();
      r_.in.rewind(begin);
    }
    for (const std::string_view marker : reasoning_->dropped) {
      if (!co_await r_.in.accept(marker)) continue;
      const bool is_dropped = co_await ends_or_begins_text();
      if (is_dropped) co_return true;
      r_.in.rewind(begin);
    }
    // A model that was asked not to reason may end what it did not begin.
    if (is_blank_) co_return co_await r_.in.accept(reasoning_->close);
    co_return false;
  }

  /// Whether a tag that may be prose stands before or behind all text.
  Step ends_or_begins_text() {
    if (is_blank_ || !reasoning_->are_tags_text) co_return true;
    const size_t begin = r_.in.position();
    co_await skip_space(r_.in);
    const bool has_more = co_await r_.in.more();
    r_.in.rewind(begin);
    co_return !has_more;
  }

  /// Behind a tag: one that begins a line opens reasoning. Inside a line it may be a mention of the tag, and
  /// is taken as one unless the reasoning's end follows.
  Step begins_reasoning() {
    if (is_line_start_) co_return true;
    if (std::string_view("`'\"").find(previous_) != std::string_view::npos) co_return false;
    const size_t begin = r_.in.position();
    std::string skipped;
    const bool has_end = co_await read_until(r_.in, reasoning_->close, kHeldBytes, skipped);
    r_.in.rewind(begin);
    co_return has_end;
  }

  /// Behind the opening tag, to behind the closing one. True.
  Step read_reasoning() {
    co_await skip_space(r_.in);
    if (co_await r_.in.accept(reasoning_->open))
      co_await skip_space(r_.in);  // the template wrote one already
    size_t from = r_.in.position();
    for (;;) {
      const bool has_byte = co_await r_.in.more();
      if (!has_byte) break;
      if (co_await r_.in.accept(reasoning_->close)) break;
      if (is_space(r_.in.take())) continue;
      const size_t end = r_.in.position();
      r_.out.reasoning(r_.in.between(from, end), from);
      from = end;
      r_.in.forget();
    }
    co_return true;
  }

  Reading& r_;
  const ToolFormat* tools_;
  const ReasoningFormat* reasoning_;
  std::string first_bytes_;    // of all markup
  size_t text_from_ = 0;       // the text from here to the cursor is still held
  bool is_line_start_ = true;  // nothing but space before the cursor on its line
  bool is_touching_ = false;   // nothing but space since markup
  bool is_blank_ = true;       // no text yet
  char previous_ = '\n';
};

}  // namespace

Step read_answer(Reading& r, const ToolFormat* tools, const ReasoningFormat* reasoning, bool in_reasoning) {
  static const std::vector<Opener> kNoOpeners;
  const MessageShape* messages = tools == nullptr ? nullptr : tools->messages;
  const bool has_reasoning = reasoning != nullptr;
  if (messages == nullptr && has_reasoning) messages = reasoning->messages;
  if (messages != nullptr) {
    const std::vector<Opener>& openers = tools == nullptr ? kNoOpeners : tools->openers;
    co_return co_await read_messages(r, *messages, openers, has_reasoning, in_reasoning);
  }
  Answer answer(r, tools, reasoning);
  co_return co_await answer.read(in_reasoning);
}

}  // namespace penstock::formats
