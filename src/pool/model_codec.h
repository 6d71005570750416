// The codec of a real model: a tokenizer and its chat templates. Immutable and thread-safe.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/chat_template.h"
#include "text/codec.h"
#include "text/tokenizer.h"

namespace penstock::pool {

class ModelCodec : public text::Codec {
 public:
  explicit ModelCodec(text::Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}

  /// The template for conversations, and one for those with tools where the model has it.
  void set_template(text::ChatTemplate plain, std::optional<text::ChatTemplate> with_tools) {
    plain_.emplace(std::move(plain));
    if (with_tools) with_tools_.emplace(std::move(*with_tools));
  }

  std::vector<int32_t> encode(std::string_view text, bool add_special) const override {
    return tokenizer_.encode(text, add_special);
  }
  std::vector<int32_t> encode_marked(std::string_view text, bool add_special) const override {
    return tokenizer_.encode_marked(text, add_special);
  }
  std::string_view piece(int32_t id) const override { return tokenizer_.piece(id); }
  bool is_special(int32_t id) const override { return tokenizer_.is_special(id); }
  text::LeadingSpace leading_space() const override { return tokenizer_.leading_space(); }
  int32_t vocab_size() const override { return tokenizer_.vocab_size(); }
  bool has_template() const override { return plain_.has_value(); }
  std::string_view template_source() const override;
  std::string render(const base::Json& context) const override;

  const text::Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  text::Tokenizer tokenizer_;
  std::optional<text::ChatTemplate> plain_, with_tools_;
};

}  // namespace penstock::pool
