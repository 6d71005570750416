// The OpenAI surface: /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/rerank, /v1/models.
#pragma once

#include "api/surface.h"
#include "http/exchange.h"

namespace penstock::api::openai {

struct RouteOptions {
  http::StreamOptions stream;  // keep-alive of SSE
};

/// Adds the routes. `service` and `ignored` must outlive the router.
void add_routes(http::Router& router, serve::Service& service, Ignored& ignored, RouteOptions options);

}  // namespace penstock::api::openai
