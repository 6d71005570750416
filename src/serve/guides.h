// The guides of one request's answers: what it wants them held to, compiled for its model. Made on a worker, since
// compiling takes milliseconds and a model's first grammar more. A guide then belongs to its sequence in the engine.
#pragma once

#include <memory>

#include "chat/request.h"
#include "engine/token_guide.h"
#include "grammar/guide.h"
#include "pool/model.h"

namespace penstock::serve {

class Guides {
 public:
  /// Throws Error(kInvalidRequest) with the request's field for what cannot be followed.
  Guides(const chat::Request& request, const pool::Model& model);

  /// For one answer; null where nothing holds it. The grammar begins behind the reasoning. Throws
  /// Error(kUnsupported) where the answer begins inside reasoning of which the end is not known.
  std::unique_ptr<engine::TokenGuide> make(grammar::Reasoning reasoning) const;

  /// Time that compiling took.
  double compile_ms() const { return compile_ms_; }

 private:
  std::shared_ptr<grammar::Compiler> compiler_;
  std::shared_ptr<const grammar::Grammar> grammar_;  // null: none
  double compile_ms_ = 0;
};

/// A guide as the engine knows it.
std::unique_ptr<engine::TokenGuide> as_token_guide(grammar::Guide guide);

}  // namespace penstock::serve
