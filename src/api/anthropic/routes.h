// The Anthropic surface: /v1/messages and /v1/messages/count_tokens.
#pragma once

#include <string>

#include "api/surface.h"

namespace penstock::api::anthropic {

struct RouteOptions {
  int keepalive_ms = 15000;  // of streams; 0: no pings
  std::string signing_key;   // of thinking blocks; empty: one is made up
};

/// Adds the routes. `service` and `ignored` must outlive the router.
void add_routes(http::Router& router, serve::Service& service, Ignored& ignored, RouteOptions options);

}  // namespace penstock::api::anthropic
