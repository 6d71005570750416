// What a grammar must allow for a model to be held to calls of declared tools, in the way its format writes
// them. Sources in Lark as llguidance reads it; compiling them is the grammar folder's work. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "formats/format.h"

namespace penstock::formats {

struct CallGrammarOptions {
  bool several = false;        // calls may follow the first
  bool after_trigger = false;  // call_trigger() is written already: the grammar begins behind it

  /// The id of a text that is a control token of the vocabulary, which grammars must name as such. Empty:
  /// none are, all markers are text.
  std::function<std::optional<int32_t>(std::string_view)> control_token = {};

  /// What is said of a schema behind %json (grammar::json_part). Empty: the schema itself.
  std::function<std::string(std::string_view)> json_part = {};
};

/// The source (rule `start`) of an answer that is calls of `tools` (OpenAI's form; one of them for a named
/// choice) and nothing else, whose arguments keep to the tools' schemas. Formats that write parameters
/// between tags: strings are any text up to the closing tag, all else is JSON of its schema, required ones
/// first. Nothing where calls cannot be forced in this format, or there is no tool.
std::optional<std::string> call_grammar(const OutputFormat& format, const base::Json& tools,
                                        const CallGrammarOptions& options);

/// The text with which a call begins wherever it stands: once a model that is free to answer has written it,
/// the grammar with `after_trigger` holds it to its tools. Nothing where calls have no such mark.
std::optional<std::string_view> call_trigger(const OutputFormat& format);

}  // namespace penstock::formats
