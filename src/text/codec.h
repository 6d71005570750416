// Text to token ids and back for one model, and its chat template. Implemented by the real tokenizer and by
// the scripted engine of the tests. Immutable and thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/pieces.h"

namespace penstock::text {

class Codec : public Pieces {
 public:
  /// Text that spells a control token is that token. `add_special` adds what the tokenizer adds around a text
  /// (BOS).
  virtual std::vector<int32_t> encode(std::string_view text, bool add_special) const = 0;

  /// The same but for spellings that a ControlGuard marked, which stay text.
  virtual std::vector<int32_t> encode_marked(std::string_view text, bool add_special) const = 0;

  virtual bool has_template() const = 0;

  /// The template that conversations with tools are rendered by; empty where there is none.
  virtual std::string_view template_source() const = 0;

  /// Renders the chat template; `context` has messages, tools, add_generation_prompt and what else the
  /// template may read. Throws Error(kInvalidRequest) with the template's own text when it refuses the
  /// conversation.
  virtual std::string render(const base::Json& context) const = 0;
};

}  // namespace penstock::text
