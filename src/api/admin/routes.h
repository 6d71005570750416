// What an operator asks of a running server: the state of the prefix cache, and to forget it; to take no more
// requests, and to take them again; to cancel one; to load
// and unload models; to park sessions and bring them back. Answers on io threads, which it does not hold up.
#pragma once

#include <memory>
#include <utility>

#include "api/openai/errors.h"
#include "base/error.h"
#include "http/exchange.h"
#include "http/router.h"
#include "serve/service.h"

namespace penstock::api::admin {

using Exchange = std::shared_ptr<http::Exchange>;

/// One line for each file of this folder.
void add_routes(http::Router& router, serve::Service& service);

void add_cache_routes(http::Router& router, serve::Service& service);
void add_lifecycle_routes(http::Router& router, serve::Service& service);
void add_model_routes(http::Router& router, serve::Service& service);
void add_session_routes(http::Router& router, serve::Service& service);

/// A handler whose errors keep their words.
template <class Handle>
http::Handler guarded(Handle handle) {
  return [handle = std::move(handle)](const http::Request& request, const Exchange& exchange) {
    try {
      handle(request, exchange);
    } catch (const base::Error& error) {
      exchange->respond(openai::error_response(error));
    }
  };
}

}  // namespace penstock::api::admin
