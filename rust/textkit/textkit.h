// The C ABI of the Rust crate textkit (tokenizers, chat templates, grammars). Handles are immutable and may be used from
// any thread, but for matchers, each of which one thread uses at a time; only src/text and src/grammar include this. A
// unit test of the crate checks these declarations against src/ffi.rs.
#ifndef TEXTKIT_H
#define TEXTKIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Status of a call. What failed, in words, is textkit_last_error of the same thread.
#define TEXTKIT_OK 0
#define TEXTKIT_INVALID 1      // a file or argument that cannot be used
#define TEXTKIT_UNSUPPORTED 2  // a file that is understood and not done here
#define TEXTKIT_REFUSED 3      // the template refused the conversation; a grammar that cannot be compiled or followed
#define TEXTKIT_TOO_SMALL 4    // the buffer is too small; the size that it needs was written
#define TEXTKIT_PANIC 5        // a defect of the library

typedef struct TextkitTokenizer TextkitTokenizer;
typedef struct TextkitTemplate TextkitTemplate;
typedef struct TextkitGrammarEnv TextkitGrammarEnv;
typedef struct TextkitGrammar TextkitGrammar;
typedef struct TextkitMatcher TextkitMatcher;

// Bytes with an explicit length. `data` may be null when `size` is 0.
typedef struct TextkitBytes {
  const uint8_t* data;
  size_t size;
} TextkitBytes;

// Many byte strings end to end: string i is bytes[offsets[i]..offsets[i + 1]].
typedef struct TextkitStrings {
  TextkitBytes bytes;
  const uint64_t* offsets;  // [count + 1]
  size_t count;
} TextkitStrings;

// Ids are -1 and flags -1 where the file says nothing.
typedef struct TextkitGgufVocab {
  TextkitBytes model;
  TextkitBytes pre;
  TextkitBytes name;
  TextkitStrings tokens;
  TextkitStrings merges;
  const int32_t* token_types;
  size_t token_types_count;
  const float* scores;
  size_t scores_count;
  int32_t bos_id;
  int32_t eos_id;
  int32_t unk_id;
  int32_t add_bos;
  int32_t add_eos;
  int32_t add_space_prefix;
} TextkitGgufVocab;

// Piece i is the i-th string; bit 0 of flags[i] marks control tokens. The ids of `ends` may follow where a grammar may
// end, and nowhere else.
typedef struct TextkitVocabulary {
  TextkitStrings pieces;
  const uint8_t* flags;  // [pieces.count]
  const uint32_t* ends;
  size_t ends_count;
} TextkitVocabulary;

typedef struct TextkitTokenizerInfo {
  size_t vocab_size;
  size_t pieces_bytes;
  int32_t leading_space;  // 0 keep, 1 strip one, 2 strip the spaces of the first token
} TextkitTokenizerInfo;

// Copies the failure of this thread's last call and returns its whole length in bytes.
size_t textkit_last_error(uint8_t* buffer, size_t capacity);

int32_t textkit_tokenizer_from_json(TextkitBytes json, TextkitBytes config, TextkitTokenizer** out);
int32_t textkit_tokenizer_from_gguf(const TextkitGgufVocab* vocab, TextkitTokenizer** out);
void textkit_tokenizer_free(TextkitTokenizer* tokenizer);
int32_t textkit_tokenizer_info(const TextkitTokenizer* tokenizer, TextkitTokenizerInfo* out);

// Fills piece_bytes [pieces_bytes], offsets [vocab_size + 1] and flags [vocab_size]: piece i is
// bytes[offsets[i]..offsets[i + 1]]; bit 0 of flags[i] says special, bit 1 that the id exists.
int32_t textkit_tokenizer_pieces(const TextkitTokenizer* tokenizer, uint8_t* piece_bytes, uint64_t* offsets,
                                 uint8_t* flags);

// What becomes of text that spells a special token. Marks (U+FDD2) are dropped before the text is encoded.
#define TEXTKIT_SPECIALS_PLAIN 0          // ordinary text
#define TEXTKIT_SPECIALS_PARSED 1         // the special token
#define TEXTKIT_SPECIALS_UNLESS_MARKED 2  // the special token unless a mark is inside it

// Writes the ids of `text` and their count; if `capacity` is too small, only the count.
int32_t textkit_tokenizer_encode(const TextkitTokenizer* tokenizer, TextkitBytes text, bool add_special,
                                 int32_t specials, uint32_t* ids, size_t capacity, size_t* count);

// The id of a token as the vocabulary spells it, or -1.
int32_t textkit_tokenizer_id(const TextkitTokenizer* tokenizer, TextkitBytes token, int64_t* id);

// Writes a tokenizer.json that gives the same ids, and its size in bytes; if `capacity` is too small, only the size.
int32_t textkit_tokenizer_json(const TextkitTokenizer* tokenizer, uint8_t* buffer, size_t capacity, size_t* size);

int32_t textkit_template_compile(TextkitBytes source, TextkitTemplate** out);
void textkit_template_free(TextkitTemplate* chat_template);

// Renders with the variables of a JSON object. local_time_s is what strftime_now sees: seconds since 1970 as the local
// clock shows them. If `capacity` is too small, only the size is written.
int32_t textkit_template_render(const TextkitTemplate* chat_template, TextkitBytes context, int64_t local_time_s,
                                uint8_t* buffer, size_t capacity, size_t* size);

// What all grammars of one vocabulary share; costs a tenth of a second and more.
int32_t textkit_grammar_env_make(const TextkitVocabulary* vocabulary, TextkitGrammarEnv** out);
void textkit_grammar_env_free(TextkitGrammarEnv* env);  // its grammars may live on

// Ids whose bytes joined are `text`, none of a control token. If `capacity` is too small, only the count is written.
int32_t textkit_grammar_env_cover(const TextkitGrammarEnv* env, TextkitBytes text, uint32_t* ids, size_t capacity,
                                  size_t* count);

// kind: 0 a JSON schema, 1 any JSON object, 2 a regular expression, 3 a JSON array of texts to choose from, 4 Lark.
int32_t textkit_grammar_compile(const TextkitGrammarEnv* env, int32_t kind, TextkitBytes source, TextkitGrammar** out);
void textkit_grammar_free(TextkitGrammar* grammar);  // its matchers may live on

// The JSON schema as a %json part of a Lark grammar should have it. If `capacity` is too small, only the size is
// written.
int32_t textkit_grammar_json_part(TextkitBytes schema, uint8_t* buffer, size_t capacity, size_t* size);

int32_t textkit_matcher_make(const TextkitGrammar* grammar, TextkitMatcher** out);
int32_t textkit_matcher_clone(const TextkitMatcher* matcher, TextkitMatcher** out);
void textkit_matcher_free(TextkitMatcher* matcher);

// Writes all of `words`: bit t % 32 of words[t / 32] is set for a token t that may follow.
int32_t textkit_matcher_mask(TextkitMatcher* matcher, uint32_t* words, size_t count);
int32_t textkit_matcher_consume(TextkitMatcher* matcher, const uint32_t* tokens, size_t count);
// How many of the tokens, from the first, may follow.
int32_t textkit_matcher_validate(TextkitMatcher* matcher, const uint32_t* tokens, size_t count, size_t* valid);
int32_t textkit_matcher_rollback(TextkitMatcher* matcher, size_t count);
// 0 where more must follow, 1 where the answer may end, 2 where it is complete.
int32_t textkit_matcher_state(TextkitMatcher* matcher, int32_t* state);

#ifdef __cplusplus
}
#endif

#endif
