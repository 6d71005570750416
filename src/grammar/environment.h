// What all grammars of one model share: the exact bytes of its vocabulary as the Rust crate wants them.
// Thread-safe. The first grammar costs a tenth of a second and more: not on an engine's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/tag.h"
#include "text/codec.h"

struct TextkitGrammarEnv;

namespace penstock::grammar {

class Environment {
 public:
  /// `stop_ids` end an answer: they may follow where a grammar may end, and nowhere else.
  Environment(std::shared_ptr<const text::Codec> codec, std::span<const int32_t> stop_ids);

  const text::Codec& codec() const { return *codec_; }
  const std::vector<int32_t>& stop_ids() const { return stop_ids_; }
  /// Tokens of a few characters of whitespace.
  const std::vector<int32_t>& spaces() const { return spaces_; }

  /// Ids whose bytes joined are `text`, none of a control token. Not what the tokenizer makes of it.
  std::vector<int32_t> cover(std::string_view text) const;

  /// Made once for each text.
  std::shared_ptr<const Tag> tag(const std::string& text) const;

  /// Made at the first call, which takes a tenth of a second and more.
  const TextkitGrammarEnv* handle() const;

 private:
  struct Free {
    void operator()(TextkitGrammarEnv* handle) const;
  };

  const std::shared_ptr<const text::Codec> codec_;
  const std::vector<int32_t> stop_ids_;
  std::vector<int32_t> spaces_;
  mutable std::once_flag made_;
  mutable std::unique_ptr<TextkitGrammarEnv, Free> handle_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const Tag>> tags_;
};

/// Of ASCII, and at least one character.
bool is_space(std::string_view text);

}  // namespace penstock::grammar
