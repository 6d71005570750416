#include "text/control_guard.h"

#include <algorithm>

namespace penstock::text {
namespace {

// Bytes of the first character of `text`.
size_t first_character_bytes(std::string_view text) {
  size_t size = 1;
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) ++size;
  return size;
}

}  // namespace

ControlGuard::ControlGuard(const Tokenizer& tokenizer) {
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view piece = tokenizer.piece(id);
    // A mark goes inside a token, so one of a single character cannot be guarded; no real one is.
    if (!tokenizer.is_special(id) || first_character_bytes(piece) >= piece.size()) continue;
    specials_.emplace_back(piece);
    if (first_bytes_.find(piece.front()) == std::string::npos) first_bytes_.push_back(piece.front());
  }
  std::ranges::stable_sort(specials_,
                           [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
}

std::string ControlGuard::mark(std::string_view text) const {
  const std::string clean = unmark(text);
  std::string marked;
  size_t done = 0;
  for (size_t at = clean.find_first_of(first_bytes_); at != std::string::npos;) {
    const std::string_view rest = std::string_view(clean).substr(at);
    const auto found =
        std::ranges::find_if(specials_, [&](const std::string& token) { return rest.starts_with(token); });
    size_t next = at + 1;
    if (found != specials_.end()) {
      // Only the first character is passed over: another special token may start inside this one.
      next = at + first_character_bytes(*found);
      marked.append(clean, done, next - done).append(kControlMark);
      done = next;
    }
    at = clean.find_first_of(first_bytes_, next);
  }
  return marked.append(clean, done);
}

base::Json ControlGuard::mark_strings(const base::Json& value) const {
  if (value.is_string()) return mark(value.get_ref<const std::string&>());
  if (!value.is_structured()) return value;
  base::Json marked = value;
  for (base::Json& part : marked) part = mark_strings(part);
  return marked;
}

std::string ControlGuard::unmark(std::string_view text) {
  std::string clean;
  for (size_t at = text.find(kControlMark); at != std::string_view::npos; at = text.find(kControlMark)) {
    clean.append(text.substr(0, at));
    text.remove_prefix(at + kControlMark.size());
  }
  return clean.append(text);
}

}  // namespace penstock::text
