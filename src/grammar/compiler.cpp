#include "grammar/compiler.h"

#include <algorithm>

namespace penstock::grammar {

Compiler::Compiler(std::shared_ptr<const text::Codec> codec, std::vector<int32_t> stop_ids)
    : codec_(std::move(codec)), stop_ids_(std::move(stop_ids)) {}

std::shared_ptr<const Environment> Compiler::environment() {
  std::call_once(made_, [this] { environment_ = std::make_shared<const Environment>(codec_, stop_ids_); });
  return environment_;
}

std::shared_ptr<const Grammar> Compiler::compile(const Source& source) {
  {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::ranges::find(kept_, source, [](const auto& entry) -> const Source& { return entry.first; });
    if (found != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, found);
      return kept_.front().second;
    }
  }
  auto grammar = std::make_shared<const Grammar>(environment(), source);
  const std::lock_guard lock(mutex_);
  kept_.emplace_front(source, grammar);
  if (kept_.size() > kKept) kept_.pop_back();
  return grammar;
}

}  // namespace penstock::grammar
