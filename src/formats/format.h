// Which formats a model writes its reasoning and its tool calls in, found from its chat template or by name,
// and their parsers. Immutable plain data; any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "formats/output_parser.h"

namespace penstock::formats {

/// One way to write tool calls: the parser of it, and what a grammar must force. One file each.
class ToolFormat;

/// One way to write reasoning.
class ReasoningFormat;

/// What one model writes. Null: the model has none, and its text is taken as it is.
struct OutputFormat {
  const ToolFormat* tools = nullptr;
  const ReasoningFormat* reasoning = nullptr;

  std::string_view tool_name() const;       // "hermes"; "none"
  std::string_view reasoning_name() const;  // "think"; "none"

  /// Control tokens that the parser must see spelled out; all others add no text.
  std::vector<std::string> spelled_tokens() const;

  /// Whether a rendered prompt leaves its reasoning open, so that the answer begins inside it.
  bool opens_reasoning(std::string_view rendered_prompt) const;
};

/// Judged by what the template itself writes for calls and reasoning.
OutputFormat detect(std::string_view chat_template);

/// By the names of a setting: "auto" is what detect() found, "none" none. Throws Error(kInvalidRequest) with
/// the names that there are.
OutputFormat chosen(std::string_view tools, std::string_view reasoning, const OutputFormat& detected);

struct ParserOptions {
  /// The declared tools in OpenAI's form; a call of another name is text. Null or empty: no calls are looked
  /// for.
  const base::Json* tools = nullptr;
  bool in_reasoning = false;  // the prompt left it open
};

/// `options.tools` must outlive the parser.
std::unique_ptr<OutputParser> make_parser(const OutputFormat& format, ParserOptions options);

}  // namespace penstock::formats
