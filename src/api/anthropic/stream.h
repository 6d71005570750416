// The frames of one streamed answer. Owned by that answer; one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "api/anthropic/content.h"
#include "api/text_frame.h"

namespace penstock::api::anthropic {

/// The event that says no more than that the connection lives.
std::string ping_frame();

/// A frame whose event is named after the type of its data.
std::string frame(const base::Json& data);

class StreamContent : public BlockTarget {
 public:
  explicit StreamContent(std::function<void(std::string_view frame)> write) : write_(std::move(write)) {}

  void open(const base::Json& block) override;
  void add(Delta kind, std::string_view text) override;
  void close() override;

 private:
  const std::function<void(std::string_view)> write_;
  size_t index_ = 0;                 // of the open block, or of the next one
  std::optional<TextFrame> deltas_;  // of the open block, all of one kind
};

}  // namespace penstock::api::anthropic
