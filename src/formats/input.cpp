#include "formats/input.h"

#include <algorithm>
#include <utility>

namespace penstock::formats {
namespace {

constexpr size_t kForgetBytes = 4096;  // erasing costs a copy of the rest

}  // namespace

bool Input::Accept::ready() const {
  const std::string_view rest = std::string_view(in_.text_).substr(in_.at_);
  return in_.ended_ || rest.size() >= marker_.size() || !marker_.starts_with(rest);
}

bool Input::Accept::await_resume() const {
  if (!std::string_view(in_.text_).substr(in_.at_).starts_with(marker_)) return false;
  in_.at_ += marker_.size();
  return true;
}

void Input::forget() {
  if (at_ < kForgetBytes) return;
  text_.erase(0, at_);
  start_ += std::exchange(at_, 0);
}

void Input::push(std::string_view text) {
  text_ += text;
  resume();
}

void Input::finish() {
  ended_ = true;
  resume();
}

void Input::resume() {
  while (wait_ != nullptr && wait_->ready()) std::exchange(wait_, nullptr)->step_.resume();
}

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

Step skip_space(Input& in) {
  for (;;) {
    const bool is_there = co_await in.more();
    if (!is_there) break;
    if (!is_space(in.peek())) break;
    in.take();
  }
  co_return true;
}

Step read_until(Input& in, std::string_view stop, size_t most_bytes, std::string& out) {
  for (size_t count = 0; count <= most_bytes; ++count) {
    if (co_await in.accept(stop)) co_return true;
    if (!co_await in.more()) co_return false;
    out += in.take();
  }
  co_return false;
}

}  // namespace penstock::formats
