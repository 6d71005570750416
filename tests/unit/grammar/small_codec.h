// A vocabulary of every byte, a few longer pieces and some control tokens, for tests of grammars.
#pragma once

#include <string>
#include <vector>

#include "text/codec.h"

namespace penstock::testing {

class SmallCodec : public text::Codec {
 public:
  static constexpr int32_t kFirstControl = 256, kEnd = 256, kThinkEnd = 257, kTool = 258, kFirstPiece = 259;

  SmallCodec() {
    for (int byte = 0; byte < 256; ++byte) pieces_.emplace_back(1, static_cast<char>(byte));
    for (const char* piece : {"<end>", "[/THINK]", "<|tool|>", "</think>\n", "</think>x", "think", "\n\n",
                              "<think>", " {", "{\"", "all>{", "all>?"}) {
      pieces_.emplace_back(piece);
    }
  }

  std::vector<int32_t> encode(std::string_view text, bool) const override {
    std::vector<int32_t> ids;
    for (size_t at = 0; at < text.size();) {
      int32_t found = static_cast<uint8_t>(text[at]);
      for (int32_t id = kFirstControl; id < kFirstPiece; ++id) {
        if (text.substr(at).starts_with(pieces_[static_cast<size_t>(id)])) found = id;
      }
      ids.push_back(found);
      at += pieces_[static_cast<size_t>(found)].size();
    }
    return ids;
  }
  std::vector<int32_t> encode_marked(std::string_view text, bool add) const override {
    return encode(text, add);
  }
  std::string_view piece(int32_t id) const override {
    return id >= 0 && id < vocab_size() ? std::string_view(pieces_[static_cast<size_t>(id)])
                                        : std::string_view();
  }
  bool is_special(int32_t id) const override { return id >= kFirstControl && id < kFirstPiece; }
  text::LeadingSpace leading_space() const override { return text::LeadingSpace::kKeep; }
  int32_t vocab_size() const override { return static_cast<int32_t>(pieces_.size()); }
  bool has_template() const override { return false; }
  std::string_view template_source() const override { return {}; }
  std::string render(const base::Json&) const override { return {}; }

  /// The token of these bytes that was named last.
  int32_t id_of(std::string_view bytes) const {
    for (int32_t id = vocab_size() - 1; id >= 0; --id)
      if (piece(id) == bytes) return id;
    return -1;
  }

 private:
  std::vector<std::string> pieces_;  // [vocab]
};

}  // namespace penstock::testing
