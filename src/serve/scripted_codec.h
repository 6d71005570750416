// The text side of the scripted engine: a byte is a token, so prompts have a known length; each distinct
// piece of the script is a token of its own. Immutable, thread-safe.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "serve/script.h"
#include "text/chat_template.h"
#include "text/codec.h"

namespace penstock::serve {

class ScriptedCodec : public text::Codec {
 public:
  static constexpr int32_t kEnd = 256;  // the stop id, "<|end|>"

  explicit ScriptedCodec(const Script& script);

  std::vector<int32_t> encode(std::string_view text, bool add_special) const override;
  std::vector<int32_t> encode_marked(std::string_view text, bool add_special) const override;
  std::string_view piece(int32_t id) const override;
  bool is_special(int32_t id) const override;
  text::LeadingSpace leading_space() const override { return text::LeadingSpace::kKeep; }
  int32_t vocab_size() const override { return static_cast<int32_t>(pieces_.size()); }
  bool has_template() const override { return has_template_; }
  std::string_view template_source() const override;
  std::string render(const base::Json& context) const override;

  /// The id of a piece of the script.
  int32_t id_of(const std::string& piece) const { return ids_.at(piece); }

  /// The bytes of a prompt.
  std::string text_of(const std::vector<int32_t>& ids) const;

 private:
  int32_t add(const std::string& piece);

  std::vector<std::string> pieces_;               // [vocab]
  std::unordered_map<std::string, int32_t> ids_;  // of pieces after the specials
  int32_t first_piece_ = 0;                       // ids from kEnd to here are special
  bool has_template_ = true;
  std::unique_ptr<text::ChatTemplate> template_;  // null: the plain one
};

}  // namespace penstock::serve
