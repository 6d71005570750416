// Answers that are made on a worker, with errors in the surface's shape.
#pragma once

#include <functional>

#include "api/surface.h"
#include "base/error.h"
#include "library/library.h"

namespace penstock::api::ollama {

/// Answers with what `make` returns, on a short worker. Throws Error(kOverloaded).
void answer_on_worker(library::Library& library, const ExchangePtr& exchange,
                      std::function<http::Response()> make);

/// The exception as an error of the program; anything that is none is internal. Null: throws.
base::Error error_of(const std::exception_ptr& exception);

}  // namespace penstock::api::ollama
