#include "grammar/environment.h"

#include <algorithm>

#include "text/textkit_call.h"

namespace penstock::grammar {
namespace {

constexpr size_t kLongestSpaceBytes = 4;
constexpr uint8_t kControlFlag = 1;

/// The vocabulary end to end.
struct Flat {
  std::string bytes;
  std::vector<uint64_t> offsets = {0};  // [vocab + 1]
  std::vector<uint8_t> flags;           // [vocab]

  explicit Flat(const text::Pieces& pieces) {
    for (int32_t id = 0; id < pieces.vocab_size(); ++id) {
      bytes += pieces.piece(id);
      offsets.push_back(bytes.size());
      flags.push_back(pieces.is_special(id) ? kControlFlag : 0);
    }
  }
};

}  // namespace

bool is_space(std::string_view text) {
  return !text.empty() && text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

void Environment::Free::operator()(TextkitGrammarEnv* handle) const {
  textkit_grammar_env_free(handle);
}

Environment::Environment(std::shared_ptr<const text::Codec> codec, std::span<const int32_t> stop_ids)
    : codec_(std::move(codec)), stop_ids_(stop_ids.begin(), stop_ids.end()) {
  for (int32_t id = 0; id < codec_->vocab_size(); ++id) {
    const std::string_view piece = codec_->piece(id);
    if (piece.size() <= kLongestSpaceBytes && is_space(piece) && !codec_->is_special(id))
      spaces_.push_back(id);
  }
}

const TextkitGrammarEnv* Environment::handle() const {
  std::call_once(made_, [this] {
    const Flat flat(*codec_);
    const std::vector<uint32_t> ends(stop_ids_.begin(), stop_ids_.end());
    const TextkitVocabulary vocabulary{{text::view_of(flat.bytes), flat.offsets.data(), flat.flags.size()},
                                       flat.flags.data(),
                                       ends.data(),
                                       ends.size()};
    TextkitGrammarEnv* made = nullptr;
    text::check(textkit_grammar_env_make(&vocabulary, &made), "grammar.environment");
    handle_.reset(made);
  });
  return handle_.get();
}

std::vector<int32_t> Environment::cover(std::string_view text) const {
  std::vector<uint32_t> ids(text.size());
  size_t count = 0;
  text::check(textkit_grammar_env_cover(handle(), text::view_of(text), ids.data(), ids.size(), &count),
              "grammar.cover");
  return {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::shared_ptr<const Tag> Environment::tag(const std::string& text) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Tag>& tag = tags_[text];
  if (tag == nullptr) tag = std::make_shared<const Tag>(*codec_, text);
  return tag;
}

}  // namespace penstock::grammar
