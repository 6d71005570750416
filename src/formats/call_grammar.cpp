#include "formats/call_grammar.h"

namespace penstock::formats {

std::optional<std::string> call_grammar(const OutputFormat&, const base::Json&, const CallGrammarOptions&) {
  return std::nullopt;
}

std::optional<std::string_view> call_trigger(const OutputFormat&) {
  return std::nullopt;
}

}  // namespace penstock::formats
