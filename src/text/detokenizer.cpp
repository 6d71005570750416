#include "text/detokenizer.h"

#include <algorithm>

#include "text/utf8.h"

namespace penstock::text {

Detokenizer::Detokenizer(const Pieces& pieces, DetokenizerOptions options)
    : pieces_(&pieces), options_(options), at_start_(options.at_text_start) {}

std::string_view Detokenizer::push(int32_t id) {
  out_.clear();
  if (options_.skip_special && pieces_->is_special(id)) return out_;
  std::string_view piece = pieces_->piece(id);
  const LeadingSpace rule = pieces_->leading_space();
  if (at_start_ && rule == LeadingSpace::kStripFirstToken) {
    piece.remove_prefix(std::min(piece.find_first_not_of(' '), piece.size()));
    at_start_ = false;
  } else if (at_start_ && !piece.empty()) {
    if (rule == LeadingSpace::kStripOne && piece.front() == ' ') piece.remove_prefix(1);
    at_start_ = false;
  }
  pending_.append(piece);
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
