// A grammar that answers are held to, compiled once for all of them. Immutable and thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "grammar/environment.h"

struct TextkitGrammar;

namespace penstock::grammar {

/// As textkit_grammar_compile numbers them.
enum class Kind : uint8_t {
  kJsonSchema,
  kJsonObject,  // without text
  kRegex,
  kChoice,  // a JSON array of texts, of which the answer is one
  kLark,    // llguidance's variant, with JSON schemas inside as "%json {...}", see json_part()
};

struct Source {
  Kind kind = Kind::kJsonObject;
  std::string text;
  auto operator<=>(const Source&) const = default;
};

class Grammar {
 public:
  /// Throws Error(kInvalidRequest) that names what is wrong with the source, or not supported, or too large.
  Grammar(std::shared_ptr<const Environment> environment, const Source& source);

  const std::shared_ptr<const Environment>& environment() const { return environment_; }
  const TextkitGrammar* handle() const { return handle_.get(); }

 private:
  struct Free {
    void operator()(TextkitGrammar* handle) const;
  };

  const std::shared_ptr<const Environment> environment_;
  std::unique_ptr<TextkitGrammar, Free> handle_;
};

/// A JSON schema as a "%json" part of a Lark grammar should have it: the whitespace between its parts is
/// bounded. Throws as Grammar for what is no schema.
std::string json_part(std::string_view schema);

}  // namespace penstock::grammar
