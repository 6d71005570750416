// Compiles the grammars of one model and keeps the last ones. Thread-safe; compiling takes milliseconds, the
// first time a tenth of a second and more: for workers, not for an engine's or io thread.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "grammar/grammar.h"

namespace penstock::grammar {

class Compiler {
 public:
  Compiler(std::shared_ptr<const text::Codec> codec, std::vector<int32_t> stop_ids);

  /// Throws what Grammar throws.
  std::shared_ptr<const Grammar> compile(const Source& source);

  std::shared_ptr<const Environment> environment();

  static constexpr size_t kKept = 64;

 private:
  const std::shared_ptr<const text::Codec> codec_;
  const std::vector<int32_t> stop_ids_;
  std::once_flag made_;
  std::shared_ptr<const Environment> environment_;

  std::mutex mutex_;
  std::list<std::pair<Source, std::shared_ptr<const Grammar>>> kept_;  // the one used last first
};

}  // namespace penstock::grammar
