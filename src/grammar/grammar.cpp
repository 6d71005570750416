#include "grammar/grammar.h"

#include "text/textkit_call.h"

namespace penstock::grammar {

void Grammar::Free::operator()(TextkitGrammar* handle) const {
  textkit_grammar_free(handle);
}

Grammar::Grammar(std::shared_ptr<const Environment> environment, const Source& source)
    : environment_(std::move(environment)) {
  TextkitGrammar* made = nullptr;
  const int32_t status = textkit_grammar_compile(environment_->handle(), static_cast<int32_t>(source.kind),
                                                 text::view_of(source.text), &made);
  text::check(status, "grammar.compile");
  handle_.reset(made);
}

std::string json_part(std::string_view schema) {
  std::string text(schema.size() + 256, '\0');
  size_t size = 0;
  const auto write = [&] {
    return textkit_grammar_json_part(text::view_of(schema), reinterpret_cast<uint8_t*>(text.data()),
                                     text.size(), &size);
  };
  int32_t status = write();
  if (status == TEXTKIT_TOO_SMALL) {
    text.resize(size);
    status = write();
  }
  text::check(status, "grammar.json_part");
  text.resize(size);
  return text;
}

}  // namespace penstock::grammar
