// GET /v1/status: the whole state of a server for a person or a script, with the last receipts. No text of
// any request. Answers on io threads.
#pragma once

#include "api/metrics.h"
#include "base/json.h"
#include "http/router.h"
#include "serve/service.h"

namespace penstock::api::admin {

base::Json status_json(const serve::Service& service, const Meters& meters);

/// `service` and `meters` must outlive the router.
void add_status_routes(http::Router& router, const serve::Service& service, const Meters& meters);

}  // namespace penstock::api::admin
