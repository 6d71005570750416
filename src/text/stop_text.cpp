#include "text/stop_text.h"

#include <algorithm>

namespace penstock::text {

StopText::StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
  for (const std::string& stop : stops_) longest_ = std::max(longest_, stop.size());
}

StopText::Emitted StopText::push(std::string_view text) {
  out_.clear();
  if (matched_ != nullptr) return {out_, true};
  const size_t old_size = held_.size();
  held_.append(text);
  // A match that ends in the old part would have been found before, so a search starts where one can still
  // end later.
  size_t best_end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t from = old_size + 1 > stop.size() ? old_size + 1 - stop.size() : 0;
    const size_t at = held_.find(stop, from);
    if (at == std::string::npos) continue;
    const size_t end = at + stop.size();
    if (end < best_end || (end == best_end && stop.size() > matched_->size())) {
      best_end = end;
      matched_ = &stop;
    }
  }
  if (matched_ != nullptr) {
    out_.assign(held_, 0, best_end - matched_->size());
    held_.clear();
    return {out_, true};
  }
  const size_t keep = longest_partial();
  out_.assign(held_, 0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return {out_, false};
}

std::string_view StopText::finish() {
  out_.swap(held_);
  held_.clear();
  return out_;
}

size_t StopText::longest_partial() const {
  if (longest_ == 0) return 0;
  for (size_t size = std::min(longest_ - 1, held_.size()); size > 0; --size) {
    const std::string_view tail = std::string_view(held_).substr(held_.size() - size);
    for (const std::string& stop : stops_) {
      if (stop.size() > size && stop.starts_with(tail)) return size;
    }
  }
  return 0;
}

}  // namespace penstock::text
