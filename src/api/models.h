// GET /v1/models and /v1/models/{id}, which several surfaces have under one path: in Anthropic's shape where
// the client sends anthropic-version, else in OpenAI's.
#pragma once

#include "http/router.h"
#include "serve/service.h"

namespace penstock::api {

/// `service` must outlive the router.
void add_model_routes(http::Router& router, const serve::Service& service);

}  // namespace penstock::api
