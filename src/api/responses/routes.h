// The Responses surface: /v1/responses and what belongs to a response.
#pragma once

#include "api/stores.h"
#include "api/surface.h"
#include "http/exchange.h"

namespace penstock::api::responses {

/// Adds the routes. `service` and `ignored` must outlive the router.
void add_routes(http::Router& router, serve::Service& service, Ignored& ignored, const Stores& stores,
                http::StreamOptions stream);

}  // namespace penstock::api::responses
