// The content of one answer as Anthropic's blocks: thinking, text and tool_use in the order in which the
// model wrote them, one open at a time. Blocks of white space only are left out. Owned by one answer; one
// thread at a time.
#pragma once

#include <string>
#include <string_view>

#include "api/anthropic/signature.h"
#include "base/json.h"
#include "chat/event.h"

namespace penstock::api::anthropic {

enum class Delta { kText, kThinking, kSignature, kInput };

/// Where blocks go. Each is opened, filled and closed before the next one.
class BlockTarget {
 public:
  virtual ~BlockTarget() = default;
  /// `block` is empty but for what is known at its start.
  virtual void open(const base::Json& block) = 0;
  virtual void add(Delta kind, std::string_view text) = 0;
  virtual void close() = 0;
};

class Content {
 public:
  /// Without `shows_thinking`, thinking blocks are empty but for their signature. All must outlive it.
  Content(const Signer& signer, bool shows_thinking, BlockTarget& target)
      : signer_(signer), shows_thinking_(shows_thinking), target_(target) {}

  void add(const chat::TextDelta& delta) { write(Kind::kText, delta.text); }
  void add(const chat::ReasoningDelta& delta) { write(Kind::kThinking, delta.text); }
  void add(const chat::ToolCallStarted& started);
  void add(const chat::ToolCallDelta& delta);
  void add(const chat::ToolCallFinished& finished);

  /// Closes what is open, a call that was cut too.
  void finish() { leave(); }

 private:
  enum class Kind { kNone, kText, kThinking, kToolUse };

  void write(Kind kind, std::string_view text);
  void open(Kind kind);
  void leave();

  const Signer& signer_;
  const bool shows_thinking_;
  BlockTarget& target_;
  Kind kind_ = Kind::kNone;
  bool is_open_ = false;  // else all of the block so far is blank
  std::string blank_;     // what waits for the first letter
  std::string thinking_;  // that is shown of the open block
};

/// {"type": "content_block_delta", ...}.
base::Json delta_json(size_t index, Delta kind, std::string_view text);

/// The blocks as a list, for an answer in one piece. A call that was cut has an empty input: its arguments
/// are no JSON.
class WholeContent : public BlockTarget {
 public:
  void open(const base::Json& block) override;
  void add(Delta kind, std::string_view text) override;
  void close() override;

  base::Json take() { return std::move(blocks_); }

 private:
  base::Json blocks_ = base::Json::array();
  std::string text_, signature_;  // of the last block
};

}  // namespace penstock::api::anthropic
