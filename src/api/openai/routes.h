// The OpenAI surface: /v1/chat/completions, /v1/completions, /v1/models. Handlers run on io threads: they
// decode, submit and return.
#pragma once

#include <atomic>
#include <cstdint>

#include "http/exchange.h"
#include "http/router.h"
#include "serve/service.h"

namespace penstock::api::openai {

/// Counters of what the surface let through without knowing it.
struct Ignored {
  std::atomic<uint64_t> fields = 0;
};

struct RouteOptions {
  http::StreamOptions stream;  // keep-alive of SSE
};

/// Adds the routes. `service` and `ignored` must outlive the router.
void add_routes(http::Router& router, serve::Service& service, Ignored& ignored, RouteOptions options);

}  // namespace penstock::api::openai
