// /v1/batches, and what runs their requests: the server's own routes, called from within.
#pragma once

#include <memory>

#include "api/surface.h"
#include "http/router.h"
#include "jobs/batches.h"

namespace penstock::api::openai {

/// Adds the routes. All must outlive the router.
void add_batch_routes(http::Router& router, serve::Service& service, Ignored& ignored,
                      jobs::Batches& batches);

/// Runs a request as its endpoint does, which is one of the router's.
jobs::Batches::Runner make_batch_runner(std::shared_ptr<const http::Router> router);

}  // namespace penstock::api::openai
