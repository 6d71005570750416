// The tokens of one generation as a queue that the command's own thread reads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/generator.h"

namespace penstock::cli {

class TokenStream : public engine::Sink {
 public:
  void on_tokens(std::span<const engine::Token> tokens) override {
    const std::lock_guard lock(mutex_);
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    ready_.notify_one();
  }

  void on_finish(const engine::Receipt& receipt) override {
    const std::lock_guard lock(mutex_);
    receipt_ = receipt;
    ready_.notify_one();
  }

  /// Waits up to 50 ms for tokens. Empty and finished() means the end.
  std::vector<engine::Token> take() {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, std::chrono::milliseconds(50), [&] { return !tokens_.empty() || receipt_; });
    return std::exchange(tokens_, {});
  }

  /// The receipt once everything has been taken.
  std::optional<engine::Receipt> finished() const {
    const std::lock_guard lock(mutex_);
    return tokens_.empty() ? receipt_ : std::nullopt;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<engine::Token> tokens_;
  std::optional<engine::Receipt> receipt_;
};

}  // namespace penstock::cli
