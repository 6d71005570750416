#include "text/control_guard.h"

#include <algorithm>

#include "text/tokenizer.h"

namespace penstock::text {
namespace {

constexpr std::string_view kOpen = "\xEF\xB7\x90", kClose = "\xEF\xB7\x91";
static_assert(kOpen.size() == kControlMark.size() && kClose.size() == kControlMark.size());
constexpr size_t kMarkBytes = kControlMark.size();

bool is_mark(std::string_view three) {
  return three == kOpen || three == kClose || three == kControlMark;
}

// Bytes of the first character of `text`.
size_t first_character_bytes(std::string_view text) {
  size_t size = 1;
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) ++size;
  return size;
}

std::string without_marks(std::string_view text) {
  std::string clean;
  size_t done = 0;
  for (size_t at = 0; (at = text.find(kOpen[0], at)) != std::string_view::npos;) {
    if (!is_mark(text.substr(at, kMarkBytes))) {
      ++at;
      continue;
    }
    clean.append(text.substr(done, at - done));
    done = at += kMarkBytes;
  }
  return clean.append(text.substr(done));
}

}  // namespace

ControlGuard::ControlGuard(const Pieces& vocabulary) : by_first_byte_(256) {
  for (int32_t id = 0; id < vocabulary.vocab_size(); ++id) {
    if (!vocabulary.is_special(id)) continue;
    // One character ("\n" in some files) is text first, and a mark goes inside a token.
    const std::string_view piece = vocabulary.piece(id);
    if (piece.size() > 2 && first_character_bytes(piece) < piece.size()) {
      by_first_byte_[static_cast<uint8_t>(piece[0])].emplace_back(piece);
    }
  }
  for (auto& pieces : by_first_byte_) {
    std::ranges::sort(pieces, [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  }
}

// Bytes of the longest special token that `text` starts with; 0 if none.
size_t ControlGuard::longest(std::string_view text) const {
  for (const std::string& piece : by_first_byte_[static_cast<uint8_t>(text[0])]) {
    if (text.starts_with(piece)) return piece.size();
  }
  return 0;
}

// The same with the special tokens that begin inside it.
size_t ControlGuard::spelled(std::string_view text) const {
  size_t end = longest(text);
  for (size_t at = 1; at < end; ++at) end = std::max(end, at + longest(text.substr(at)));
  return end;
}

std::string ControlGuard::fence(std::string_view text) const {
  const std::string clean = without_marks(text);
  const std::string_view all = clean;
  std::string fenced;
  size_t done = 0;
  for (size_t at = 0; at < all.size();) {
    const size_t bytes = spelled(all.substr(at));
    if (bytes == 0) {
      ++at;
      continue;
    }
    fenced.append(all.substr(done, at - done)).append(kOpen).append(all.substr(at, bytes)).append(kClose);
    done = at += bytes;
  }
  return done == 0 ? clean : fenced.append(all.substr(done));
}

base::Json ControlGuard::fence_strings(const base::Json& value) const {
  if (value.is_string()) return fence(value.get_ref<const std::string&>());
  if (value.is_array()) {
    base::Json fenced = base::Json::array();
    for (const base::Json& part : value) fenced.push_back(fence_strings(part));
    return fenced;
  }
  if (!value.is_object()) return value;
  base::Json fenced = base::Json::object();
  // Appended: operator[] would look through all earlier names for each new one. Fenced names differ as the
  // names do.
  base::Json::object_t::Container& members = fenced.get_ref<base::Json::object_t&>();
  for (const auto& [name, part] : value.items()) members.emplace_back(fence(name), fence_strings(part));
  return fenced;
}

std::string ControlGuard::mark(std::string_view rendered) const {
  std::string marked;
  while (true) {
    const size_t open = rendered.find(kOpen);
    marked += without_marks(rendered.substr(0, open));
    if (open == std::string_view::npos) return marked;
    rendered.remove_prefix(open + kMarkBytes);
    // What fence() wrote is spellings and nothing else; anything longer is the halves of two pairs.
    const size_t bytes = rendered.empty() ? 0 : spelled(rendered);
    if (bytes == 0 || !rendered.substr(bytes).starts_with(kClose)) continue;
    for (size_t at = 0; at < bytes;) {
      const bool begins = longest(rendered.substr(at, bytes - at)) > 0;
      const size_t size = begins ? first_character_bytes(rendered.substr(at)) : 1;
      marked.append(rendered.substr(at, size)).append(begins ? kControlMark : "");
      at += size;
    }
    rendered.remove_prefix(bytes + kMarkBytes);
  }
}

}  // namespace penstock::text
