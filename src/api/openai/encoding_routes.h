// The endpoints that encode texts: POST /v1/embeddings, POST /v1/rerank.
#pragma once

#include "api/surface.h"

namespace penstock::api::openai {

/// Adds the routes. `service` and `ignored` must outlive the router.
void add_encoding_routes(Surface& surface, serve::Service& service, Ignored& ignored);

}  // namespace penstock::api::openai
