#include "serve/guarded_text.h"

#include <algorithm>

#include "base/error.h"

namespace penstock::serve {
namespace {

using base::Json;

/// The noncharacters U+FDD0 to U+FDEF: never text, and left alone by templates and normalisers.
constexpr int kMarks = 32;

std::string mark_character(int i) {
  return {'\xEF', '\xB7', static_cast<char>(0x90 + i)};
}

bool occurs(const Json& value, const std::string& text) {
  if (value.is_string()) return value.get_ref<const std::string&>().find(text) != std::string::npos;
  if (!value.is_structured()) return false;
  return std::any_of(value.begin(), value.end(), [&](const Json& child) { return occurs(child, text); });
}

void erase_all(std::string& text, const std::string& what) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos;) text.erase(at, what.size());
}

}  // namespace

ControlSpellings::ControlSpellings(const text::Codec& codec) : by_first_byte_(256) {
  for (int32_t id = 0; id < codec.vocab_size(); ++id) {
    if (!codec.is_special(id)) continue;
    // One or two characters ("\n" in some files) are text first: marking them would cut ordinary prompts.
    const std::string_view piece = codec.piece(id);
    if (piece.size() > 2) by_first_byte_[static_cast<uint8_t>(piece[0])].emplace_back(piece);
  }
  for (auto& pieces : by_first_byte_) {
    std::sort(pieces.begin(), pieces.end(),
              [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  }
}

size_t ControlSpellings::match(std::string_view text, size_t at) const {
  for (const std::string& piece : by_first_byte_[static_cast<uint8_t>(text[at])]) {
    if (text.substr(at, piece.size()) == piece) return piece.size();
  }
  return 0;
}

GuardedText::GuardedText(const ControlSpellings& spellings, const Json& client) : spellings_(&spellings) {
  for (int i = 0; i < kMarks && close_.empty(); ++i) {
    std::string candidate = mark_character(i);
    if (!occurs(client, candidate)) (open_.empty() ? open_ : close_) = std::move(candidate);
  }
  if (close_.empty()) {
    throw base::Error(base::Code::kInvalidRequest,
                      "[serve.prepare] expected text with unused noncharacters; got all of U+FDD0 to U+FDEF",
                      "messages");
  }
}

std::string GuardedText::mark(std::string_view text) const {
  std::string out;
  size_t copied = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t length = spellings_->match(text, at);
    if (length == 0) {
      ++at;
      continue;
    }
    out.append(text.substr(copied, at - copied)).append(open_).append(text.substr(at, length)).append(close_);
    at += length;
    copied = at;
  }
  if (copied == 0) return std::string(text);
  return out.append(text.substr(copied));
}

Json GuardedText::mark(const Json& value) const {
  if (value.is_string()) return mark(std::string_view(value.get_ref<const std::string&>()));
  if (value.is_array()) {
    Json out = Json::array();
    for (const Json& child : value) out.push_back(mark(child));
    return out;
  }
  if (!value.is_object()) return value;
  Json out = Json::object();
  for (const auto& [key, child] : value.items()) out[mark(std::string_view(key))] = mark(child);
  return out;
}

std::vector<int32_t> GuardedText::encode(const text::Codec& codec, std::string_view rendered) const {
  std::vector<int32_t> ids;
  const auto add = [&](std::string_view span, bool parse_special) {
    std::string text(span);
    erase_all(text, open_);  // a template that cuts a text can leave half a pair
    erase_all(text, close_);
    if (text.empty()) return;
    const std::vector<int32_t> part = codec.encode(text, false, parse_special);
    ids.insert(ids.end(), part.begin(), part.end());
  };
  while (!rendered.empty()) {
    const size_t from = std::min(rendered.find(open_), rendered.size());
    add(rendered.substr(0, from), true);
    rendered.remove_prefix(from);
    const size_t to = std::min(rendered.find(close_), rendered.size());
    add(rendered.substr(0, to), false);
    rendered.remove_prefix(to);
  }
  return ids;
}

}  // namespace penstock::serve
