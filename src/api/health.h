// Probes for people and orchestrators: /health, /healthz, /readyz (503 unless requests are taken) and /livez.
// Open without a key.
#pragma once

#include <string_view>

#include "http/router.h"
#include "serve/service.h"

namespace penstock::api {

/// Whether the path is one of the probes.
bool is_probe(std::string_view path);

/// `service` must outlive the router.
void add_health_routes(http::Router& router, const serve::Service& service);

}  // namespace penstock::api
