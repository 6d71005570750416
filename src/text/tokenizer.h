// Text to token ids and back, over the tokenizers of the Rust crate. Immutable once made: every const method
// may be called from any thread. It knows nothing of templates, and it does not produce text step by step
// (see Detokenizer).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/pieces.h"

namespace penstock::text {

/// The vocabulary metadata of a GGUF file (`tokenizer.ggml.*`). Arrays and values that the file lacks stay
/// empty.
struct GgufVocab {
  std::string model;                 // tokenizer.ggml.model: gpt2, llama, gemma4
  std::string pre;                   // tokenizer.ggml.pre
  std::string name;                  // general.name
  std::vector<std::string> tokens;   // [vocab], spelled as in the file
  std::vector<int32_t> token_types;  // [vocab] or empty
  std::vector<float> scores;         // [vocab] or empty
  std::vector<std::string> merges;   // "left right", best first
  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
  std::optional<int32_t> unk_id;
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::optional<bool> add_space_prefix;
};

/// A noncharacter (U+FDD2) that keeps text from being read as a special token; see ControlGuard.
inline constexpr std::string_view kControlMark = "\xEF\xB7\x92";

class Tokenizer : public Pieces {
 public:
  /// `tokenizer_config_json` may be empty. Throws Error(kCorrupt) for a damaged file, Error(kUnsupported) for
  /// a kind of tokenizer that is not done here.
  static Tokenizer from_json(std::string_view tokenizer_json, std::string_view tokenizer_config_json);
  static Tokenizer from_gguf(const GgufVocab& vocab);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer() override;

  /// Token ids of `text` (UTF-8, else Error(kInvalidRequest)). `add_special` puts the special tokens around
  /// it that the files ask for. Without `parse_special`, text that spells a special token stays ordinary
  /// text; added tokens that are not special are still recognised.
  std::vector<int32_t> encode(std::string_view text, bool add_special, bool parse_special = true) const;

  /// The same, where text that spells a special token is one unless a kControlMark is inside it. Marks are
  /// dropped.
  std::vector<int32_t> encode_marked(std::string_view text, bool add_special) const;

  std::string_view piece(int32_t id) const override;
  bool is_special(int32_t id) const override;

  /// Text of `ids`, by the rules of Detokenizer: the same as pushing them one by one and finishing.
  std::string decode(std::span<const int32_t> ids, bool skip_special) const;

  int32_t vocab_size() const override;

  /// The id of a token as the vocabulary spells it.
  std::optional<int32_t> token_to_id(std::string_view token) const;

  LeadingSpace leading_space() const override;

  /// A tokenizer.json that gives the same ids in any program that reads such files.
  std::string to_json() const;

 private:
  struct State;
  std::vector<int32_t> encode_as(std::string_view text, bool add_special, int32_t specials) const;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace penstock::text
