#include "api/anthropic/stream.h"

#include "http/sse.h"

namespace penstock::api::anthropic {

using base::Json;

std::string frame(const Json& data) {
  return http::sse_frame(data.dump(-1, ' ', false, Json::error_handler_t::replace),
                         data["type"].get_ref<const std::string&>());
}

std::string ping_frame() {
  return frame({{"type", "ping"}});
}

void StreamContent::open(const Json& block) {
  deltas_.reset();
  write_(frame({{"type", "content_block_start"}, {"index", index_}, {"content_block", block}}));
}

void StreamContent::add(Delta kind, std::string_view text) {
  if (kind == Delta::kSignature) return write_(frame(delta_json(index_, kind, text)));
  if (!deltas_) {
    deltas_.emplace([&](const std::string& part) { return delta_json(index_, kind, part); },
                    "content_block_delta");
  }
  write_(deltas_->event(text));
}

void StreamContent::close() {
  write_(frame({{"type", "content_block_stop"}, {"index", index_++}}));
}

}  // namespace penstock::api::anthropic
