// Mounts every surface on one router.
#pragma once

#include "api/metrics.h"
#include "api/stores.h"
#include "config/settings.h"
#include "http/router.h"
#include "serve/service.h"

namespace penstock::api {

/// The routes whose answers the model generates, which a batch may call. All must outlive the router.
void mount_generating(http::Router& router, serve::Service& service, Meters& meters, const Stores& stores,
                      const config::Settings& settings);

/// Those and all others. All must outlive the router.
void mount(http::Router& router, serve::Service& service, Meters& meters, const Stores& stores,
           const config::Settings& settings);

}  // namespace penstock::api
