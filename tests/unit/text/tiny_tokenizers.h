// Tokenizers small enough to read, made in memory for the tests of this folder.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace penstock::text::testing {

/// The character by which a byte-level vocabulary spells a byte.
inline std::string byte_character(int byte) {
  const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
  int code = byte;
  if (!printable) {
    int before = 0;  // unprintable bytes below this one
    for (int other = 0; other < byte; ++other) {
      before += !((other >= 0x21 && other <= 0x7E) || (other >= 0xA1 && other <= 0xAC) || other >= 0xAE);
    }
    code = 0x100 + before;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

inline base::Json added_token(int id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

/// One token per byte (id = byte), then `added` special tokens from id 256 on.
inline base::Json byte_level_json(const std::vector<std::string>& specials) {
  const base::Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  base::Json vocab = base::Json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[byte_character(byte)] = byte;
  base::Json added = base::Json::array();
  for (const std::string& special : specials) {
    added.push_back(added_token(256 + static_cast<int>(added.size()), special, true));
  }
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", base::Json::array()}}}};
}

inline Tokenizer byte_level(const std::vector<std::string>& specials) {
  return Tokenizer::from_json(byte_level_json(specials).dump(), "");
}

/// A SentencePiece vocabulary as GGUF files have it: <unk> 0, <s> 1, </s> 2, bytes 3 to 258, then words with
/// U+2581.
inline GgufVocab sentencepiece_vocab() {
  GgufVocab vocab;
  vocab.model = "llama";
  const auto add = [&](const std::string& token, int32_t type, float score) {
    vocab.tokens.push_back(token);
    vocab.token_types.push_back(type);
    vocab.scores.push_back(score);
  };
  add("<unk>", 2, 0);
  add("<s>", 3, 0);
  add("</s>", 3, 0);
  for (int byte = 0; byte < 256; ++byte) {
    char token[8];
    std::snprintf(token, sizeof token, "<0x%02X>", byte);
    add(token, 6, 0);
  }
  const std::string mark = "\xE2\x96\x81";
  for (const char letter : std::string("Helo wrd")) {
    if (letter != ' ') add(std::string(1, letter), 1, -100);
  }
  float score = -1;
  for (const std::string& word :
       {mark, std::string("He"), std::string("ll"), std::string("Hell"), std::string("Hello"), mark + "Hello",
        mark + "w", std::string("or"), std::string("ld"), mark + "wor", mark + "world"}) {
    add(word, 1, score--);
  }
  vocab.bos_id = 1;
  vocab.eos_id = 2;
  vocab.unk_id = 0;
  return vocab;
}

inline Tokenizer sentencepiece() {
  return Tokenizer::from_gguf(sentencepiece_vocab());
}

}  // namespace penstock::text::testing
