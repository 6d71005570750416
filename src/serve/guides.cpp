#include "serve/guides.h"

#include <chrono>
#include <string>
#include <utility>

#include "base/error.h"

namespace penstock::serve {
namespace {

using base::Code;
using base::Error;

class SequenceGuide : public engine::TokenGuide {
 public:
  explicit SequenceGuide(grammar::Guide guide) : guide_(std::move(guide)) {}

  bool mask(std::span<uint32_t> words) override { return guide_.mask(words); }
  size_t allowed(std::span<const int32_t> tokens) override { return guide_.allowed(tokens); }
  void accept(int32_t token) override { guide_.accept(token); }
  void rollback(size_t n) override { guide_.rollback(n); }
  bool is_done() const override { return guide_.is_done(); }

 private:
  grammar::Guide guide_;
};

grammar::Kind kind_of(chat::Constraint::Kind kind) {
  switch (kind) {
    case chat::Constraint::Kind::kJsonSchema:
      return grammar::Kind::kJsonSchema;
    case chat::Constraint::Kind::kJsonObject:
      return grammar::Kind::kJsonObject;
    case chat::Constraint::Kind::kRegex:
      return grammar::Kind::kRegex;
    case chat::Constraint::Kind::kChoice:
      return grammar::Kind::kChoice;
    case chat::Constraint::Kind::kLark:
      return grammar::Kind::kLark;
  }
  return grammar::Kind::kJsonObject;
}

}  // namespace

Guides::Guides(const chat::Request& request, const pool::Model& model) : compiler_(model.grammars) {
  if (!request.constraint) return;
  const chat::Constraint& constraint = *request.constraint;
  const auto start = std::chrono::steady_clock::now();
  try {
    grammar_ = compiler_->compile({kind_of(constraint.kind), constraint.text});
  } catch (const Error& error) {
    throw Error(error.code(), error.what(), constraint.field);
  }
  compile_ms_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::unique_ptr<engine::TokenGuide> Guides::make(grammar::Reasoning reasoning) const {
  if (grammar_ == nullptr && !reasoning.budget_tokens) return nullptr;
  if (reasoning.open && reasoning.end.empty()) {
    throw Error(Code::kUnsupported,
                "[serve.guides] expected an answer that begins outside the model's reasoning; got a template "
                "that leaves it open, in a format without a known end");
  }
  return as_token_guide(
      grammar::Guide(compiler_->environment(), {grammar_, {}, false, std::move(reasoning)}));
}

std::unique_ptr<engine::TokenGuide> as_token_guide(grammar::Guide guide) {
  return std::make_unique<SequenceGuide>(std::move(guide));
}

}  // namespace penstock::serve
