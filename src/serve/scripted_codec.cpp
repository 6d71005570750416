#include "serve/scripted_codec.h"

#include "text/tokenizer.h"

namespace penstock::serve {
namespace {

using base::Json;

/// "role: content" lines, for scripts that do not bring a template.
std::string render_plain(const Json& context) {
  std::string out;
  if (context.contains("tools")) out += "tools: " + context["tools"].dump() + "\n";
  for (const Json& message : context["messages"]) {
    out += message["role"].get<std::string>() + ": " + message["content"].get<std::string>() + "\n";
  }
  if (context.value("add_generation_prompt", false)) out += "assistant: ";
  return out;
}

}  // namespace

ScriptedCodec::ScriptedCodec(const Script& script) : has_template_(script.has_template) {
  for (int byte = 0; byte < 256; ++byte) pieces_.emplace_back(1, static_cast<char>(byte));
  pieces_.emplace_back("<|end|>");
  pieces_.insert(pieces_.end(), script.special_tokens.begin(), script.special_tokens.end());
  first_piece_ = vocab_size();
  for (const ScriptedReply& reply : script.replies) {
    for (const ScriptedPiece& piece : reply.pieces) {
      add(piece.bytes);
      for (const auto& [text, logprob] : piece.top) add(text);
    }
  }
  if (!script.chat_template.empty()) {
    template_ = std::make_unique<text::ChatTemplate>(script.chat_template, text::TemplateSpecials{});
  }
}

int32_t ScriptedCodec::add(const std::string& piece) {
  const auto [entry, is_new] = ids_.try_emplace(piece, vocab_size());
  if (is_new) pieces_.push_back(piece);
  return entry->second;
}

std::vector<int32_t> ScriptedCodec::encode_marked(std::string_view text, bool add_special) const {
  std::vector<int32_t> ids;
  while (true) {
    // A mark stands inside a control token, so encoding up to it and from it on finds no such token there.
    const size_t mark = text.find(text::kControlMark);
    const std::vector<int32_t> part = encode(text.substr(0, mark), add_special);
    ids.insert(ids.end(), part.begin(), part.end());
    if (mark == std::string_view::npos) return ids;
    text.remove_prefix(mark + text::kControlMark.size());
  }
}

std::vector<int32_t> ScriptedCodec::encode(std::string_view text, bool /*add_special*/) const {
  std::vector<int32_t> ids;
  for (size_t at = 0; at < text.size();) {
    int32_t found = -1;
    for (int32_t id = kEnd; id < first_piece_ && found < 0; ++id) {
      if (text.substr(at).starts_with(pieces_[id])) found = id;
    }
    ids.push_back(found >= 0 ? found : static_cast<uint8_t>(text[at]));
    at += found >= 0 ? pieces_[found].size() : 1;
  }
  return ids;
}

std::string_view ScriptedCodec::piece(int32_t id) const {
  return id >= 0 && id < vocab_size() ? std::string_view(pieces_[id]) : std::string_view();
}

bool ScriptedCodec::is_special(int32_t id) const {
  return id >= kEnd && id < first_piece_;
}

std::string_view ScriptedCodec::template_source() const {
  return template_ ? std::string_view(template_->source()) : std::string_view();
}

std::string ScriptedCodec::render(const Json& context) const {
  return template_ ? template_->render(context) : render_plain(context);
}

std::string ScriptedCodec::text_of(const std::vector<int32_t>& ids) const {
  std::string text;
  for (const int32_t id : ids) text += piece(id);
  return text;
}

}  // namespace penstock::serve
