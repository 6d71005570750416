#include "api/whole_choice.h"

#include <iterator>
#include <utility>

namespace penstock::api {

void WholeChoice::add(chat::TextDelta delta) {
  text += delta.text;
  std::move(delta.logprobs.begin(), delta.logprobs.end(), std::back_inserter(logprobs));
}

void WholeChoice::add(chat::ReasoningDelta delta) {
  reasoning += delta.text;
}

void WholeChoice::add(chat::ToolCallStarted started) {
  calls.push_back({std::move(started.id), started.is_own_id, std::move(started.name), {}, false});
}

void WholeChoice::add(chat::ToolCallDelta delta) {
  calls[static_cast<size_t>(delta.call)].arguments += delta.arguments;
}

void WholeChoice::add(chat::ToolCallFinished finished) {
  calls[static_cast<size_t>(finished.call)].is_complete = true;
}

void WholeChoice::add(chat::Finished finished) {
  reason = finished.reason;
  stop = std::move(finished.stop);
}

std::string call_id(std::string_view prefix, const std::string& id, bool is_own_id) {
  return is_own_id ? id : std::string(prefix) + id;
}

}  // namespace penstock::api
