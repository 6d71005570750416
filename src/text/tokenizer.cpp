#include "text/tokenizer.h"

#include "base/error.h"
#include "text/detokenizer.h"
#include "text/textkit_call.h"

namespace penstock::text {
namespace {

constexpr uint8_t kFlagSpecial = 1;

struct FreeTokenizer {
  void operator()(TextkitTokenizer* handle) const { textkit_tokenizer_free(handle); }
};
using Handle = std::unique_ptr<TextkitTokenizer, FreeTokenizer>;

// Strings as the C ABI takes them: all bytes end to end and where each one starts.
struct FlatStrings {
  explicit FlatStrings(const std::vector<std::string>& strings) : count(strings.size()) {
    offsets.reserve(count + 1);
    offsets.push_back(0);
    for (const std::string& text : strings) {
      bytes += text;
      offsets.push_back(bytes.size());
    }
  }

  TextkitStrings view() const { return {view_of(bytes), offsets.data(), count}; }

  std::string bytes;
  std::vector<uint64_t> offsets;  // [count + 1]
  size_t count;
};

int32_t flag_of(std::optional<bool> flag) {
  return flag ? static_cast<int32_t>(*flag) : -1;
}

/// An id beyond the vocabulary would be put in front of every prompt.
void check_id(std::optional<int32_t> id, size_t n_tokens) {
  if (!id || (*id >= 0 && static_cast<size_t>(*id) < n_tokens)) return;
  throw base::Error(base::Code::kCorrupt, "[text.tokenizer] expected the id of one of " +
                                              std::to_string(n_tokens) + " tokens; got " +
                                              std::to_string(*id));
}

LeadingSpace leading_space_of(int32_t value) {
  switch (value) {
    case 1:
      return LeadingSpace::kStripOne;
    case 2:
      return LeadingSpace::kStripFirstToken;
    default:
      return LeadingSpace::kKeep;
  }
}

}  // namespace

struct Tokenizer::State {
  explicit State(TextkitTokenizer* raw) : handle(raw) {
    TextkitTokenizerInfo info;
    check(textkit_tokenizer_info(raw, &info), "text.tokenizer");
    bytes.resize(info.pieces_bytes);
    offsets.resize(info.vocab_size + 1);
    flags.resize(info.vocab_size);
    leading_space = leading_space_of(info.leading_space);
    check(
        textkit_tokenizer_pieces(raw, reinterpret_cast<uint8_t*>(bytes.data()), offsets.data(), flags.data()),
        "text.tokenizer");
  }

  bool holds(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < flags.size(); }

  Handle handle;
  std::string bytes;              // all pieces end to end
  std::vector<uint64_t> offsets;  // [vocab + 1]
  std::vector<uint8_t> flags;     // [vocab]
  LeadingSpace leading_space;
};

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json, std::string_view tokenizer_config_json) {
  TextkitTokenizer* raw = nullptr;
  check(textkit_tokenizer_from_json(view_of(tokenizer_json), view_of(tokenizer_config_json), &raw),
        "text.tokenizer");
  return Tokenizer(std::make_unique<State>(raw));
}

Tokenizer Tokenizer::from_gguf(const GgufVocab& vocab) {
  for (const auto& id : {vocab.bos_id, vocab.eos_id, vocab.unk_id}) check_id(id, vocab.tokens.size());
  const FlatStrings tokens(vocab.tokens);
  const FlatStrings merges(vocab.merges);
  const TextkitGgufVocab given{
      .model = view_of(vocab.model),
      .pre = view_of(vocab.pre),
      .name = view_of(vocab.name),
      .tokens = tokens.view(),
      .merges = merges.view(),
      .token_types = vocab.token_types.data(),
      .token_types_count = vocab.token_types.size(),
      .scores = vocab.scores.data(),
      .scores_count = vocab.scores.size(),
      .bos_id = vocab.bos_id.value_or(-1),
      .eos_id = vocab.eos_id.value_or(-1),
      .unk_id = vocab.unk_id.value_or(-1),
      .add_bos = flag_of(vocab.add_bos),
      .add_eos = flag_of(vocab.add_eos),
      .add_space_prefix = flag_of(vocab.add_space_prefix),
  };
  TextkitTokenizer* raw = nullptr;
  check(textkit_tokenizer_from_gguf(&given, &raw), "text.tokenizer");
  return Tokenizer(std::make_unique<State>(raw));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special, bool parse_special) const {
  return encode_as(text, add_special, parse_special ? TEXTKIT_SPECIALS_PARSED : TEXTKIT_SPECIALS_PLAIN);
}

std::vector<int32_t> Tokenizer::encode_marked(std::string_view text, bool add_special) const {
  return encode_as(text, add_special, TEXTKIT_SPECIALS_UNLESS_MARKED);
}

std::vector<int32_t> Tokenizer::encode_as(std::string_view text, bool add_special, int32_t specials) const {
  // A token is at least one byte of almost every tokenizer; the second round is for those that expand their
  // text.
  std::vector<int32_t> ids(text.size() + 8);
  size_t count = 0;
  auto run = [&] {
    return textkit_tokenizer_encode(state_->handle.get(), view_of(text), add_special, specials,
                                    reinterpret_cast<uint32_t*>(ids.data()), ids.size(), &count);
  };
  int32_t status = run();
  if (status == TEXTKIT_TOO_SMALL) {
    ids.resize(count);
    status = run();
  }
  if (status == TEXTKIT_INVALID) {
    throw base::Error(base::Code::kInvalidRequest,
                      "[text.encode] text must be UTF-8 that the tokenizer can encode");
  }
  check(status, "text.encode");
  ids.resize(count);
  return ids;
}

std::string_view Tokenizer::piece(int32_t id) const {
  if (!state_->holds(id)) return {};
  const size_t start = state_->offsets[static_cast<size_t>(id)];
  return std::string_view(state_->bytes).substr(start, state_->offsets[static_cast<size_t>(id) + 1] - start);
}

bool Tokenizer::is_special(int32_t id) const {
  return state_->holds(id) && (state_->flags[static_cast<size_t>(id)] & kFlagSpecial) != 0;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  Detokenizer detokenizer(*this, {.skip_special = skip_special, .at_text_start = true});
  std::string text;
  for (const int32_t id : ids) text += detokenizer.push(id);
  text += detokenizer.finish();
  return text;
}

int32_t Tokenizer::vocab_size() const {
  return static_cast<int32_t>(state_->flags.size());
}

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  int64_t id = -1;
  check(textkit_tokenizer_id(state_->handle.get(), view_of(token), &id), "text.token_to_id");
  if (id < 0) return std::nullopt;
  return static_cast<int32_t>(id);
}

LeadingSpace Tokenizer::leading_space() const {
  return state_->leading_space;
}

std::string Tokenizer::to_json() const {
  size_t size = 0;
  const int32_t status = textkit_tokenizer_json(state_->handle.get(), nullptr, 0, &size);
  if (status != TEXTKIT_TOO_SMALL) check(status, "text.tokenizer_json");
  std::string json(size, '\0');
  check(textkit_tokenizer_json(state_->handle.get(), reinterpret_cast<uint8_t*>(json.data()), json.size(),
                               &size),
        "text.tokenizer_json");
  return json;
}

}  // namespace penstock::text
