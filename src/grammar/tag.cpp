#include "grammar/tag.h"

#include <utility>

namespace penstock::grammar {

Tag::Tag(const text::Pieces& pieces, std::string text)
    : text_(std::move(text)), border_(text_.size() + 1), closers_(text_.size()), openers_(text_.size()) {
  for (size_t i = 1, k = 0; i < text_.size(); ++i) {
    while (k > 0 && text_[i] != text_[k]) k = border_[k];
    if (text_[i] == text_[k]) ++k;
    border_[i + 1] = k;
  }
  find_closers(pieces);
  find_openers(pieces);
}

Tag::Step Tag::advance(size_t matched, std::string_view piece) const {
  Step step{matched, {}};
  for (size_t i = 0; i < piece.size(); ++i) {
    while (step.matched > 0 && piece[i] != text_[step.matched]) step.matched = border_[step.matched];
    if (piece[i] == text_[step.matched]) ++step.matched;
    if (step.matched < text_.size()) continue;
    return {0, i + 1};
  }
  return step;
}

void Tag::find_closers(const text::Pieces& pieces) {
  for (int32_t id = 0; id < pieces.vocab_size(); ++id) {
    const std::string_view piece = pieces.piece(id);
    const size_t last = piece.find(text_.back());
    if (last == std::string_view::npos || last + 1 == piece.size()) continue;
    for (size_t matched = 0; matched < text_.size(); ++matched) {
      const Step step = advance(matched, piece);
      if (step.end && *step.end < piece.size()) closers_[matched].push_back({id, piece.substr(*step.end)});
    }
  }
}

void Tag::find_openers(const text::Pieces& pieces) {
  for (int32_t id = 0; id < pieces.vocab_size(); ++id) {
    const std::string_view piece = pieces.piece(id);
    if (piece.empty()) continue;
    for (size_t matched = 0; matched < text_.size(); ++matched) {
      const std::string_view rest = std::string_view(text_).substr(matched);
      if (rest.starts_with(piece) || piece.starts_with(rest)) openers_[matched].push_back(id);
    }
  }
}

}  // namespace penstock::grammar
