// What an operator asks of a running server: the state of the prefix cache, and to forget it. Answers on io
// threads.
#pragma once

#include "http/router.h"
#include "serve/service.h"

namespace penstock::api::admin {

void add_routes(http::Router& router, serve::Service& service);

}  // namespace penstock::api::admin
