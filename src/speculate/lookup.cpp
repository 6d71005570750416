#include "speculate/lookup.h"

#include <algorithm>

namespace penstock::speculate {
namespace {

uint64_t pair_of(int32_t first, int32_t second) {
  return static_cast<uint64_t>(static_cast<uint32_t>(first)) << 32 | static_cast<uint32_t>(second);
}

}  // namespace

void Lookup::add(std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) enter(token);
  if (!tokens.empty()) match_ = find();
}

void Lookup::add(int32_t token) {
  const bool goes_on = match_ && tokens_[match_->place] == token && match_->length < longest_ - 1;
  enter(token);
  if (goes_on) {
    match_ = Match{match_->place + 1, match_->length + 1};
  } else {
    match_ = find();
  }
}

void Lookup::enter(int32_t token) {
  const size_t place = tokens_.size();
  before_.push_back(-1);
  // Entered when something follows: the latest tokens themselves are not a place to look.
  if (place >= kShortest) {
    const auto [it, is_new] = latest_.try_emplace(pair_of(tokens_[place - 2], tokens_[place - 1]), -1);
    before_.back() = it->second;
    it->second = static_cast<int32_t>(place);
  }
  tokens_.push_back(token);
}

/// The place with the longest equal text before it.
std::optional<Lookup::Match> Lookup::find() const {
  const size_t size = tokens_.size();
  if (size < kShortest) return std::nullopt;
  const auto found = latest_.find(pair_of(tokens_[size - 2], tokens_[size - 1]));
  if (found == latest_.end()) return std::nullopt;
  std::optional<Match> best;
  int32_t tries = 0;
  for (int32_t at = found->second; at >= 0 && tries < kMostPlaces; ++tries) {
    const auto place = static_cast<size_t>(at);
    const auto most = static_cast<int32_t>(std::min(static_cast<size_t>(longest_), place));
    int32_t length = kShortest;
    while (length < most && tokens_[place - 1 - static_cast<size_t>(length)] ==
                                tokens_[size - 1 - static_cast<size_t>(length)])
      ++length;
    if (!best || length > best->length) best = Match{place, length};
    if (length >= longest_) break;
    at = before_[place];
  }
  return best;
}

std::vector<int32_t> Lookup::propose(int32_t n) const {
  std::vector<int32_t> drafts;
  if (!match_) return drafts;
  for (size_t at = match_->place; static_cast<int32_t>(drafts.size()) < n; ++at)
    drafts.push_back(at < tokens_.size() ? tokens_[at] : drafts[at - tokens_.size()]);
  return drafts;
}

}  // namespace penstock::speculate
