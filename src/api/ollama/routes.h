// The routes of the Ollama API: /api/..., and the root that its clients probe. Handlers run on io threads:
// they decode, submit or post to a worker, and return.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/surface.h"
#include "http/router.h"
#include "library/library.h"
#include "serve/service.h"

namespace penstock::api::ollama {

/// What the handlers know. All must outlive the router.
struct Context {
  serve::Service& service;
  library::Library& library;
  Ignored& ignored;
  std::vector<std::string> cors_origins;
};
using ContextPtr = std::shared_ptr<const Context>;

/// One line for each file of handlers.
void add_routes(http::Router& router, Context context);

void add_generating_routes(Surface& surface, const ContextPtr& context);
void add_model_routes(Surface& surface, const ContextPtr& context);
void add_change_routes(Surface& surface, const ContextPtr& context);
void add_blob_routes(http::Router& router, Surface& surface, const ContextPtr& context);

}  // namespace penstock::api::ollama
