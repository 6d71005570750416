// Renders a model's chat template as transformers does. Immutable once made: render may be called from any
// thread. It does not tokenise, and it does not choose among a model's templates (see template_files.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace penstock::text {

/// Special tokens as text, as templates see them (`bos_token` and so on). An absent one is undefined in the
/// template.
struct TemplateSpecials {
  std::optional<std::string> bos;
  std::optional<std::string> eos;
  std::optional<std::string> unk;
  std::optional<std::string> pad;
};

class ChatTemplate {
 public:
  /// Throws Error(kCorrupt) if `source` is not a template.
  ChatTemplate(std::string source, TemplateSpecials specials);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  /// `context` is an object with `messages` and, as they apply, `tools`, `documents`, `add_generation_prompt`
  /// (false when absent) and `chat_template_kwargs`, whose entries become variables of their own. Absent
  /// tools and documents are none. The names `reasoning_content`, `thinking` and `reasoning` of a message
  /// stand for each other. Throws Error(kInvalidRequest) with the template's own words if it refuses the
  /// conversation. `local_time_s` is what strftime_now sees (seconds since 1970 as a local clock shows them);
  /// the machine's clock if absent.
  std::string render(const base::Json& context, std::optional<int64_t> local_time_s = std::nullopt) const;

  const std::string& source() const { return source_; }

 private:
  struct Handle;
  std::string source_;
  base::Json specials_;  // variables that every rendering gets
  std::unique_ptr<Handle> handle_;
};

}  // namespace penstock::text
