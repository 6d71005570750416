// Everything that was said of one choice, for an answer in one piece. Plain data; one thread at a time.
#pragma once

#include <string>
#include <vector>

#include "chat/event.h"

namespace penstock::api {

/// A call of an answer. One that the output broke off in is not complete, and its arguments are no JSON.
struct WholeCall {
  std::string id;
  bool is_own_id = false;  // that the model wrote
  std::string name, arguments;
  bool is_complete = false;
};

struct WholeChoice {
  std::string text, reasoning;
  std::vector<WholeCall> calls;
  std::vector<chat::TokenLogprob> logprobs;  // of the text
  chat::FinishReason reason = chat::FinishReason::kStop;
  std::string stop;  // the stop string that ended it

  void add(chat::TextDelta delta);
  void add(chat::ReasoningDelta delta);
  void add(chat::ToolCallStarted started);
  void add(chat::ToolCallDelta delta);
  void add(chat::ToolCallFinished finished);
  void add(chat::Finished finished);
};

/// The id of a call on a surface whose ids begin with `prefix`; one that the model wrote stays.
std::string call_id(std::string_view prefix, const std::string& id, bool is_own_id);

}  // namespace penstock::api
