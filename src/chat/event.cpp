#include "chat/event.h"

namespace penstock::chat {

std::string_view name(FinishReason reason) {
  return reason == FinishReason::kStop ? "stop" : "length";
}

}  // namespace penstock::chat
