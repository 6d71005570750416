// What a response says, item by item, made from chat events: the one place that knows how reasoning, text and
// calls become items. The stream's events and the stored object both come from it. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api/responses/tools.h"
#include "base/json.h"
#include "chat/event.h"

namespace penstock::api::responses {

struct OutputOptions {
  bool logprobs = false;
  bool carries_reasoning = false;  // reasoning items have encrypted_content
};

class Output {
 public:
  /// Told of each change of an item: the event's type and its fields behind that.
  using Tell = std::function<void(std::string_view type, base::Json fields)>;
  using MakeId = std::function<std::string(std::string_view prefix)>;

  /// `names` must outlive it; `tell` may be null.
  Output(const ToolNames& names, OutputOptions options, MakeId make_id, Tell tell)
      : names_(names), options_(options), make_id_(std::move(make_id)), tell_(std::move(tell)) {}

  void add(const chat::TextDelta& delta);
  void add(const chat::ReasoningDelta& delta);
  void add(const chat::ToolCallStarted& started);
  void add(const chat::ToolCallDelta& delta);
  void add(const chat::ToolCallFinished& finished);

  /// Nothing more comes. Where the answer is not whole, the item that was being written is incomplete; a
  /// whole one has a message or a call, if an empty one.
  void finish(bool is_whole);

  /// All items so far; the last may still be written.
  std::vector<base::Json> items() const;

 private:
  enum class Open { kNothing, kReasoning, kMessage, kCall };

  void open(Open kind, base::Json item);
  void open_part(Open kind, base::Json item);
  void open_message();
  void close(std::string_view status);
  void close_part(std::string_view done_type);
  base::Json part() const;
  base::Json written(std::string_view status) const;
  base::Json place() const;
  base::Json place_in_part() const;

  const ToolNames& names_;
  const OutputOptions options_;
  const MakeId make_id_;
  const Tell tell_;
  std::vector<base::Json> items_;
  Open open_ = Open::kNothing;                // what the last item is while it is written
  std::string text_;                          // of it: text, reasoning or arguments
  base::Json entries_ = base::Json::array();  // log probabilities of its text
};

}  // namespace penstock::api::responses
