#include "formats/input.h"

#include <algorithm>
#include <utility>

namespace penstock::formats {
namespace {

constexpr size_t kForgetBytes = 4096;  // erasing costs a copy of the rest

}  // namespace

bool Input::is_known(std::string_view marker) const {
  if (ended_) return true;
  if (marker.empty()) return has_byte();
  return rest().size() >= marker.size() || !marker.starts_with(rest());
}

bool Input::pass(std::string_view marker) {
  if (!rest().starts_with(marker)) return false;
  at_ += marker.size();
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
  while (step_ && is_known(awaited_)) std::exchange(step_, nullptr).resume();
}

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

Step skip_space(Input& in) {
  for (;;) {
    const bool has_byte = co_await in.more();
    if (!has_byte) break;
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
