// Mounts every surface on one router.
#pragma once

#include "api/metrics.h"
#include "config/settings.h"
#include "http/router.h"
#include "serve/service.h"

namespace penstock::api {

/// `service` and `meters` must outlive the router.
void mount(http::Router& router, serve::Service& service, Meters& meters, const config::Settings& settings);

}  // namespace penstock::api
