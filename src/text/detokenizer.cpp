#include "text/detokenizer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "text/utf8.h"

namespace penstock::text {

Detokenizer::Detokenizer(const Pieces& pieces, DetokenizerOptions options)
    : pieces_(&pieces), options_(std::move(options)), at_start_(options_.at_text_start) {}

std::string_view Detokenizer::push(int32_t id) {
  out_.clear();
  const auto is_spelled = [&] {
    return std::find(options_.spelled.begin(), options_.spelled.end(), id) != options_.spelled.end();
  };
  if (options_.skip_special && pieces_->is_special(id) && !is_spelled()) return out_;
  const std::string_view piece = pieces_->piece(id);
  const LeadingSpace rule = at_start_ ? pieces_->leading_space() : LeadingSpace::kKeep;
  switch (rule) {
    case LeadingSpace::kKeep:
      pending_.append(piece);
      break;
    case LeadingSpace::kStripOne:
      pending_.append(piece.substr(piece.starts_with(' ') ? 1 : 0));
      break;
    case LeadingSpace::kStripFirstToken:
      std::ranges::copy_if(piece, std::back_inserter(pending_), [](char c) { return c != ' '; });
      break;
  }
  // An empty piece is no start of the text, but it is a first token.
  if (!piece.empty() || rule == LeadingSpace::kStripFirstToken) at_start_ = false;
  pending_.erase(0, append_utf8(pending_, out_));
  return out_;
}

std::string_view Detokenizer::finish() {
  out_.clear();
  if (!pending_.empty()) out_ = kReplacement;
  pending_.clear();
  return out_;
}

}  // namespace penstock::text
